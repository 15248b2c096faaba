// The multiplication of f32 rows with a panel, for any Vec.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels.hpp"

namespace moert::cpu::simd {
namespace {

inline float number_at(const void* row, int64_t index) {
  float value;
  __builtin_memcpy(&value, static_cast<const unsigned char*>(row) + index * 4, sizeof value);
  return value;
}

// How far ahead of the weights that are read the next ones are asked for. A prefetch may point anywhere, so
// the end of a panel needs no care; behind it stands the next one.
inline constexpr int64_t kAhead = 4096;

// Weights as they lie: kDepth numbers of the depth at a time, for sixteen columns.
template <class V, Storage S>
struct Weights;
template <class V>
struct Weights<V, Storage::bf16> {
  static constexpr int kDepth = 2;
  static constexpr int64_t kBytes = 64;
  static void load(const unsigned char* p, V (&w)[2]) { V::load_pairs(p, &w[0], &w[1]); }
};
template <class V>
struct Weights<V, Storage::f16> {
  static constexpr int kDepth = 1;
  static constexpr int64_t kBytes = 32;
  static void load(const unsigned char* p, V (&w)[1]) { w[0] = V::load_f16(p); }
};
template <class V>
struct Weights<V, Storage::f32> {
  static constexpr int kDepth = 1;
  static constexpr int64_t kBytes = 64;
  static void load(const unsigned char* p, V (&w)[1]) { w[0] = V::load_f32(p); }
};

// Adds what D numbers of the depth give, in their order.
template <class V, Storage S, int D, int R, int C>
inline void add_step(const Product& p, int64_t row, int64_t d, const unsigned char* at,
                     V (&sum)[R][C]) {
  using W = Weights<V, S>;
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c) {
    V w[W::kDepth];
    W::load(at + c * W::kBytes, w);
#pragma GCC unroll 2
    for (int i = 0; i < D; ++i) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
        sum[r][c] = V::fma(V::all(number_at(p.rows[row + r], d + i)), w[i], sum[r][c]);
    }
  }
}

// R rows from `row` on, C times sixteen columns from `column` on.
template <class V, Storage S, int R, int C>
void tile(const Product& p, int64_t row, int64_t column) {
  using W = Weights<V, S>;
  float* out = p.out + row * kPanel + column;
  V sum[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) sum[r][c] = p.add ? V::load(out + r * kPanel + 16 * c) : V::zero();
  }
  constexpr int64_t kStep = W::kBytes * (kPanel / 16);
  const unsigned char* at = p.panel + p.first / W::kDepth * kStep + column / 16 * W::kBytes;
  const int64_t end = p.first + p.depth;
  int64_t d = p.first;
  for (; d + W::kDepth <= end; d += W::kDepth, at += kStep) {
    // A narrow tile leaves lines out; the first one of a stripe asks for all of them.
    if (R <= 2 || (C < 4 && column == 0))
      for (int64_t line = 0; line < (C < 4 ? kStep : C * W::kBytes); line += 64)
        __builtin_prefetch(at + line + kAhead);
    add_step<V, S, W::kDepth>(p, row, d, at, sum);
  }
  if (d < end) add_step<V, S, 1>(p, row, d, at, sum);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) sum[r][c].store(out + r * kPanel + 16 * c);
  }
}

// Cuts the rows into tiles of about the same height, at most T::kRows.
template <class T>
void for_each_tile(const Product& p) {
  for (int64_t row = 0; row < p.count;) {
    const int64_t left = p.count - row;
    const int64_t tiles = (left + T::kRows - 1) / T::kRows;
    const int64_t height = (left + tiles - 1) / tiles;
    T::run(p, row, height);
    row += height;
  }
}

template <class V, Storage S>
struct F32Tile {
  static constexpr int kRows = V::kRows;
  static void run(const Product& p, int64_t row, int64_t height) {
    switch (height) {
      case 1: return tile<V, S, 1, 4>(p, row, 0);  // in the order in which the weights lie
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
      tile<V, S, R, 4>(p, row, 0);
    else if constexpr (R <= V::kRows)
      in_stripes<R>(p, row);
  }
  // Tiles that are narrower than a panel go through it in stripes, so that what one leaves out is still near when
  // the next one reads it.
  template <int R>
  static void in_stripes(const Product& p, int64_t row) {
    constexpr int64_t kStripe = 64;
    for (int64_t d = 0; d < p.depth; d += kStripe) {
      Product part = p;
      part.first += d;
      part.depth = p.depth - d < kStripe ? p.depth - d : kStripe;
      part.add = p.add || d > 0;
      for (int64_t column = 0; column < kPanel; column += 16 * V::kColumns)
        tile<V, S, R, V::kColumns>(part, row, column);
    }
  }
};

template <class V, Storage S>
void multiply_f32(const Product& p) {
  for_each_tile<F32Tile<V, S>>(p);
}

}  // namespace
}  // namespace moert::cpu::simd
