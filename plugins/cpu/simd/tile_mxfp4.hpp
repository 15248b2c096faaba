// The multiplication of f32 rows with a panel of mxfp4, for any Vec.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tile_f32.hpp"

namespace moert::cpu::simd {
namespace {

// Adds the products of one group's codes, without their scales.
template <class V, int R, int C>
inline void add_codes(const Product& p, int64_t row, int64_t d, const unsigned char* at,
                      V (&sum)[R][C]) {
  for (int q = 0; q < 4; ++q, at += kGroupCodes / 4) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j, d += 2) {
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) {
        V w[2];
        V::load_codes(at + 64 * c, j, &w[0], &w[1]);
#pragma GCC unroll 2
        for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 8
          for (int r = 0; r < R; ++r)
            sum[r][c] = V::fma(V::all(number_at(p.rows[row + r], d + i)), w[i], sum[r][c]);
        }
      }
    }
  }
}

template <class V, int R, int C>
void mxfp4_tile(const Product& p, int64_t row, int64_t column) {
  float* out = p.out + row * kPanel + column;
  bool add = p.add;
  for (int64_t d = p.first; d < p.first + p.depth; d += kGroup, add = true) {
    const unsigned char* group = p.panel + d / kGroup * kGroupBytes;
    if (C < 4 ? column == 0 : R <= 2)
      for (int i = 0; i < 17; ++i) __builtin_prefetch(group + 64 * i + kAhead);
    V sum[R][C];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) sum[r][c] = V::zero();
    }
    add_codes(p, row, d, group + column / 16 * 64, sum);
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      const V scale = V::load_scales(group + kGroupCodes + column + 16 * c);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        float* to = out + r * kPanel + 16 * c;
        V::fma(sum[r][c], scale, add ? V::load(to) : V::zero()).store(to);
      }
    }
  }
}

template <class V>
struct Mxfp4Tile {
  static constexpr int kRows = V::kRows;
  static void run(const Product& p, int64_t row, int64_t height) {
    switch (height) {
      case 1: return mxfp4_tile<V, 1, 4>(p, row, 0);
      case 2: return across<2>(p, row);
      case 3: return across<3>(p, row);
      case 4: return across<4>(p, row);
      case 5: return across<5>(p, row);
      default: return across<6>(p, row);
    }
  }
  template <int R>
  static void across(const Product& p, int64_t row) {
    if constexpr (R <= V::kRows && V::kColumns == 4)
      mxfp4_tile<V, R, 4>(p, row, 0);
    else if constexpr (R <= V::kRows)
      group_by_group<R>(p, row);
  }
  // Tiles that are narrower than a panel: each line of a group is read while it is near. Sums of groups go through
  // `out` in any case.
  template <int R>
  static void group_by_group(const Product& p, int64_t row) {
    Product part = p;
    part.depth = kGroup;
    for (int64_t d = 0; d < p.depth; d += kGroup, part.first += kGroup, part.add = true)
      for (int64_t column = 0; column < kPanel; column += 16 * V::kColumns)
        mxfp4_tile<V, R, V::kColumns>(part, row, column);
  }
};

template <class V>
void multiply_mxfp4(const Product& p) {
  for_each_tile<Mxfp4Tile<V>>(p);
}

}  // namespace
}  // namespace moert::cpu::simd
