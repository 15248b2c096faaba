// What this machine gives at most, measured next to what is held against it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/host.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace moert::bench {

// Both use all threads of the host, like what is measured. Bandwidth changes within seconds on shared machines:
// measure it before and after.
class MachineLimits {
 public:
  explicit MachineLimits(const moert_host_t* host) : host_(host), memory_(memory()) {}

  // Of memory that no cache holds, read once from its beginning to its end. The best of three.
  double read_bytes_per_second() const {
    double best = 0;
    for (int i = 0; i < 3; ++i) {
      const double seconds = time(&read_part);
      best = std::max(best, static_cast<double>(kCount * sizeof(uint64_t)) / seconds);
    }
    return best;
  }

  // Of the instruction that multiplies pairs of bf16; 0 where the processor does not have it.
  double bf16_flop_per_second() const {
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx512bf16")) return 0;
    double best = 0;
    for (int i = 0; i < 3; ++i) best = std::max(best, flop() / time(&dot_part));
    return best;
#else
    return 0;
#endif
  }

 private:
  static constexpr int64_t kParts = 64;
  static constexpr int64_t kRounds = 40000;

  static constexpr size_t kCount = size_t{64} << 20;  // half a gigabyte
  // In large pages where the system has them, as the weights are. It stays: there is one for all measurements.
  static const uint64_t* memory() {
    static const uint64_t* const it = [] {
      constexpr size_t kPage = size_t{2} << 20;
      void* p = std::aligned_alloc(kPage, kCount * sizeof(uint64_t));
      if (p == nullptr) throw std::bad_alloc();
      ::madvise(p, kCount * sizeof(uint64_t), MADV_HUGEPAGE);
      auto* numbers = static_cast<uint64_t*>(p);
      std::fill_n(numbers, kCount, uint64_t{1});
      return numbers;
    }();
    return it;
  }

  double time(void (*part)(const MachineLimits&, int64_t)) const {
    struct Call {
      const MachineLimits* self;
      void (*part)(const MachineLimits&, int64_t);
    } call{this, part};
    const auto start = std::chrono::steady_clock::now();
    host_->parallel_for(
        host_->ctx, kParts, 1,
        [](void* arg, int64_t begin, int64_t end, int32_t) {
          const auto* it = static_cast<const Call*>(arg);
          for (int64_t i = begin; i < end; ++i) it->part(*it->self, i);
        },
        &call);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  static void read_part(const MachineLimits& self, int64_t index) {
    const size_t count = kCount / kParts;
    const uint64_t* from = self.memory_ + count * static_cast<size_t>(index);
    uint64_t sums[8] = {};
    for (size_t i = 0; i < count; i += 8)
      for (size_t j = 0; j < 8; ++j) sums[j] ^= from[i + j];
    uint64_t all = 0;
    for (uint64_t sum : sums) all ^= sum;
    self.sink_ += all;
  }

#if defined(__x86_64__)
  static constexpr int kChains = 24;
  static double flop() { return static_cast<double>(kParts) * kRounds * kChains * 64; }

  __attribute__((target("avx512f,avx512bf16"))) static void dot_part(const MachineLimits& self,
                                                                     int64_t) {
    __m512 sums[kChains];
    const auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3f803f80));
    for (__m512& sum : sums) sum = _mm512_setzero_ps();
    for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 24
      for (int c = 0; c < kChains; ++c) sums[c] = _mm512_dpbf16_ps(sums[c], x, x);
    }
    float all[16];
    float total = 0;
    for (__m512 sum : sums) {
      std::memcpy(all, &sum, sizeof all);
      total += all[0];
    }
    self.sink_ += static_cast<uint64_t>(total);
  }
#endif

  const moert_host_t* host_;
  const uint64_t* memory_;
  mutable std::atomic<uint64_t> sink_{0};
};

}  // namespace moert::bench
