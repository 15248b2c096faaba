// The multiplication of f32 rows with a panel of bytes, for any Vec.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "groups_bytes.hpp"

namespace moert::cpu::simd {
namespace {

// Adds the products of one group's codes, without their scales. `column` is a multiple of 16.
template <class V, Storage S, int R, int C>
inline void add_bytes(const Product& p, int64_t row, int64_t column, const CodeGroup& group,
                      V (&sum)[R][C]) {
  const unsigned char* at = group.codes;
  for (int64_t d = 0; d < group.numbers; d += 2, at += 2 * kPanel) {
    if (R <= 2)
      for (int64_t line = 0; line < 2 * kPanel; line += 64) __builtin_prefetch(at + line + kAhead);
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      const int64_t vector = column / 16 + c;
      V w[2];
      const unsigned char* codes = at + vector / 2 * 64 + vector % 2 * 8;
      if constexpr (S == Storage::fp8)
        V::load_fp8(codes, &w[0], &w[1]);
      else
        V::load_int8(codes, &w[0], &w[1]);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
        sum[r][c] = V::fma(V::all(number_at(p.rows[row + r], group.first + d)), w[0], sum[r][c]);
      if (d + 1 == group.numbers) continue;
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
        sum[r][c] =
            V::fma(V::all(number_at(p.rows[row + r], group.first + d + 1)), w[1], sum[r][c]);
    }
  }
}

// One group of R rows, C times sixteen columns.
template <class V, Storage S, int R, int C>
inline void bytes_group(const Product& p, int64_t row, int64_t column, const CodeGroup& group) {
  float* out = p.out + row * kPanel + column;
  V sum[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) sum[r][c] = V::zero();
  }
  add_bytes<V, S>(p, row, column, group, sum);
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c) {
    const V scale =
        group_scales<V>(p.format.scales, group.scales, static_cast<int>(column / 16) + c);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      float* to = out + r * kPanel + 16 * c;
      V::fma(sum[r][c], scale, group.add ? V::load(to) : V::zero()).store(to);
    }
  }
}

// Group by group, so that what a narrow tile leaves out is still near when the next one reads it. One row has
// registers for all columns, in the order in which the codes lie.
template <class V, Storage S, int R>
void bytes_tile(const Product& p, int64_t row) {
  constexpr int kColumns = R == 1 ? 4 : V::kColumns;
  each_code_group(p, [&](const CodeGroup& group) {
    for (int64_t column = 0; column < kPanel; column += 16 * kColumns)
      bytes_group<V, S, R, kColumns>(p, row, column, group);
  });
}

template <class V, Storage S>
struct BytesTile {
  static constexpr int kRows = V::kRows;
  static void run(const Product& p, int64_t row, int64_t height) {
    switch (height) {
      case 1: return upto<1>(p, row);
      case 2: return upto<2>(p, row);
      case 3: return upto<3>(p, row);
      case 4: return upto<4>(p, row);
      case 5: return upto<5>(p, row);
      default: return upto<6>(p, row);
    }
  }
  template <int R>
  static void upto(const Product& p, int64_t row) {
    if constexpr (R <= V::kRows) bytes_tile<V, S, R>(p, row);
  }
};

template <class V, Storage S>
void multiply_bytes(const Product& p) {
  for_each_tile<BytesTile<V, S>>(p);
}

}  // namespace
}  // namespace moert::cpu::simd
