// Operands of one product: rows in memory that ends with them, panels, sums.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <random>
#include <vector>

#include "../../plugins/cpu/simd/kernels.hpp"

namespace moert::cpu::testing {

// Each row an allocation of its own, so that a sanitizer sees a read behind it.
class ApartRows {
 public:
  ApartRows(int64_t count, int64_t bytes) : bytes_(bytes) {
    for (int64_t r = 0; r < count; ++r) {
      rows_.push_back(std::make_unique<unsigned char[]>(static_cast<size_t>(bytes)));
      pointers_.push_back(rows_.back().get());
    }
  }
  unsigned char* at(int64_t row) { return rows_[static_cast<size_t>(row)].get(); }
  const void* const* pointers() const { return pointers_.data(); }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_;
  std::vector<std::unique_ptr<unsigned char[]>> rows_;
  std::vector<const void*> pointers_;
};

inline uint16_t bf16_bits(float x) {
  return static_cast<uint16_t>(__builtin_bit_cast(uint32_t, x) >> 16);
}
inline float of_bf16(uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16);
}

// Numbers in [-1, 1), exact in bf16.
inline float random_bf16(std::mt19937_64& random) {
  return of_bf16(bf16_bits(static_cast<float>(static_cast<int64_t>(random() % 513) - 256) / 256));
}

}  // namespace moert::cpu::testing
