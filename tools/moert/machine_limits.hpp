// What this machine gives at most, measured next to what is held against it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include <moert/abi/host.h>

namespace moert::tool {

// All threads of the host take part, as in what is measured. Bandwidth changes within seconds on shared machines:
// measure it before and after.
class MachineLimits {
 public:
  // Reads its own memory, of that many bytes at least; it should exceed the caches several times. Throws
  // Error(device) where memory is short. The host is borrowed.
  MachineLimits(const moert_host_t* host, uint64_t bytes);
  MachineLimits(const MachineLimits&) = delete;
  MachineLimits& operator=(const MachineLimits&) = delete;

  // The memory read once from its beginning to its end; the best of three.
  double read_bytes_per_second() const;

  // Multiplications and additions, two of them in each product that is added; the best of three. By the instruction
  // that multiplies pairs of bf16 where the processor has it, else by products of f32 in the widest vectors.
  double flop_per_second() const;
  // Which of them: "bf16 pairs, avx512_bf16", "f32, avx512", "f32, avx2", "f32, 128 bits, unfused".
  const char* flop_kind() const;

  uint64_t memory_bytes() const { return count_ * sizeof(uint64_t); }

 private:
  struct Arithmetic;
  static const Arithmetic& arithmetic();
  double best_time(void (*part)(const MachineLimits&, int64_t)) const;
  static void read_part(const MachineLimits& self, int64_t index);
  static void arithmetic_part(const MachineLimits& self, int64_t index);

  struct Free {
    void operator()(uint64_t* p) const { std::free(p); }
  };
  const moert_host_t* host_;
  uint64_t count_;
  std::unique_ptr<uint64_t[], Free> memory_;
  float one_ = 1;
  mutable std::atomic<uint64_t> sink_{0};
};

}  // namespace moert::tool
