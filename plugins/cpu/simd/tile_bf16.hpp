// The multiplication of bf16 rows with a panel of bf16 by the dot product of pairs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tile_f32.hpp"
#include "vec_avx512.hpp"

namespace moert::cpu::simd {
namespace {

// vdpbf16ps adds two products of bf16 to an f32, with every product and sum in f32. It takes subnormal numbers
// for zeros and makes none, which moves a result by less than 2^-125 for each product.
inline __m512bh pair_at(const void* row, int64_t index) {
  int32_t pair;
  __builtin_memcpy(&pair, static_cast<const unsigned char*>(row) + index * 2, sizeof pair);
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
}
// The last number of an odd depth: nothing is read behind it.
inline __m512bh last_at(const void* row, int64_t index) {
  uint16_t last;
  __builtin_memcpy(&last, static_cast<const unsigned char*>(row) + index * 2, sizeof last);
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(last));
}

template <int R>
void pairs_tile(const Product& p, int64_t row) {
  const auto load = [](const unsigned char* from) {
    return reinterpret_cast<__m512bh>(_mm512_loadu_si512(from));
  };
  float* out = p.out + row * kPanel;
  __m512 sum[R][4];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c)
      sum[r][c] = p.add ? _mm512_loadu_ps(out + r * kPanel + 16 * c) : _mm512_setzero_ps();
  }
  const unsigned char* at = p.panel + p.first / 2 * 256;
  const int64_t end = p.first + p.depth;
  int64_t d = p.first;
  for (; d + 2 <= end; d += 2, at += 256) {
    if (R <= 4) {
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c) __builtin_prefetch(at + 64 * c + kAhead);
    }
    const __m512bh w[4] = {load(at), load(at + 64), load(at + 128), load(at + 192)};
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512bh x = pair_at(p.rows[row + r], d);
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c) sum[r][c] = _mm512_dpbf16_ps(sum[r][c], x, w[c]);
    }
  }
  if (d < end) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512bh x = last_at(p.rows[row + r], d);
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c) sum[r][c] = _mm512_dpbf16_ps(sum[r][c], x, load(at + 64 * c));
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) _mm512_storeu_ps(out + r * kPanel + 16 * c, sum[r][c]);
  }
}

struct PairsTile {
  static constexpr int kRows = 6;
  static void run(const Product& p, int64_t row, int64_t height) {
    switch (height) {
      case 1: return pairs_tile<1>(p, row);
      case 2: return pairs_tile<2>(p, row);
      case 3: return pairs_tile<3>(p, row);
      case 4: return pairs_tile<4>(p, row);
      case 5: return pairs_tile<5>(p, row);
      default: return pairs_tile<6>(p, row);
    }
  }
};

inline void multiply_pairs(const Product& p) { for_each_tile<PairsTile>(p); }

}  // namespace
}  // namespace moert::cpu::simd
