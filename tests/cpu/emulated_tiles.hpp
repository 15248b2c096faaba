// The tiles of AMX in plain C++, for the kernels that are written over them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "../../plugins/cpu/simd/tile_bf16_amx.hpp"

namespace moert::cpu::testing {

inline float flushed(float x) {
  const auto bits = __builtin_bit_cast(uint32_t, x);
  return (bits & 0x7f800000u) != 0 ? x : __builtin_bit_cast(float, bits & 0x80000000u);
}
inline float number_of_bf16(uint32_t bits) {
  return flushed(__builtin_bit_cast(float, bits << 16));
}

// What TDPBF16PS makes of an f32 and pairs of bf16, by the operation in Intel's "Architecture Instruction Set
// Extensions Programming Reference", chapter on AMX (also in the "Software Developer's Manual", volume 2): subnormal
// numbers are zeros where they are read and where they would come out, every operation rounds to nearest even, whatever
// MXCSR says. Pair k of the left side and of the right one are `left[k]` and `right[k * step]`.
inline float dot_of_pairs(float sum, const uint32_t* left, const uint32_t* right, int64_t step,
                          int64_t pairs) {
  float chain[2] = {0, 0};
  for (int64_t k = 0; k < pairs; ++k)
    for (int half = 0; half < 2; ++half)
      chain[half] = flushed(std::fma(number_of_bf16(left[k] >> 16 * half),
                                     number_of_bf16(right[k * step] >> 16 * half), chain[half]));
  return flushed(flushed(sum) + flushed(chain[0] + chain[1]));
}

// Contracts: plugins/cpu/simd/tile_bf16_amx.hpp. What would be a fault of the processor is a failure of the test.
class EmulatedTiles {
 public:
  EmulatedTiles() = default;
  EmulatedTiles(const EmulatedTiles&) = delete;
  EmulatedTiles& operator=(const EmulatedTiles&) = delete;
  ~EmulatedTiles() { EXPECT_FALSE(configured_) << "tiles are left behind in the thread"; }

  void configure(const simd::TileConfig& config) {
    unsigned char bytes[64];
    std::memcpy(bytes, &config, sizeof bytes);
    EXPECT_EQ(bytes[0], 1) << "palette";
    for (int i = 1; i < 16; ++i) EXPECT_EQ(bytes[i], 0) << "byte " << i;
    for (int t = 0; t < 16; ++t) {
      uint16_t row_bytes = 0;
      std::memcpy(&row_bytes, bytes + 16 + 2 * t, sizeof row_bytes);
      const int rows = bytes[48 + t];
      EXPECT_TRUE(row_bytes <= 64 && rows <= 16) << "tile " << t;
      EXPECT_EQ(row_bytes == 0, rows == 0) << "tile " << t;
      if (t < 8)
        tiles_[t] = {rows, row_bytes / 4, {}};
      else
        EXPECT_EQ(rows, 0) << "tile " << t;
    }
    configured_ = true;
  }
  void release() { configured_ = false; }
  template <int T>
  void zero() {
    std::memset(tile<T>().words, 0, sizeof tile<T>().words);
  }
  template <int T>
  void load(const void* from, int64_t stride) {
    zero<T>();
    Tile& t = tile<T>();
    for (int r = 0; r < t.rows; ++r)
      std::memcpy(t.words[r], static_cast<const unsigned char*>(from) + r * stride,
                  static_cast<size_t>(t.columns) * 4);
  }
  template <int T>
  void store(void* to, int64_t stride) {
    const Tile& t = tile<T>();
    for (int r = 0; r < t.rows; ++r)
      std::memcpy(static_cast<unsigned char*>(to) + r * stride, t.words[r],
                  static_cast<size_t>(t.columns) * 4);
  }
  template <int Sum, int Left, int Right>
  void dot() {
    Tile& sum = tile<Sum>();
    const Tile& left = tile<Left>();
    const Tile& right = tile<Right>();
    static_assert(Sum != Left && Sum != Right && Left != Right);
    ASSERT_TRUE(sum.rows == left.rows && left.columns == right.rows &&
                right.columns == sum.columns);
    for (int m = 0; m < sum.rows; ++m)
      for (int n = 0; n < sum.columns; ++n)
        sum.words[m][n] = __builtin_bit_cast(
            uint32_t, dot_of_pairs(__builtin_bit_cast(float, sum.words[m][n]), left.words[m],
                                   &right.words[0][n], 16, left.columns));
  }

 private:
  struct Tile {
    int rows, columns;  // columns of 32 bits
    uint32_t words[16][16];
  };
  template <int T>
  Tile& tile() {
    static_assert(T >= 0 && T < 8);
    EXPECT_TRUE(configured_);
    return tiles_[T];
  }
  Tile tiles_[8] = {};
  bool configured_ = false;
};

}  // namespace moert::cpu::testing
