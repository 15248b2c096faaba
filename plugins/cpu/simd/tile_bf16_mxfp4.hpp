// The multiplication of bf16 rows with a panel of mxfp4: codes become bf16, pairs are multiplied.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tile_bf16.hpp"
#include "tile_bf16_bytes.hpp"

namespace moert::cpu::simd {
namespace {

// Every e2m1 number is exact in bf16. Twice the sixteen codes: the index is five bits wide, and the fifth is a
// neighbour's.
alignas(64) constexpr uint16_t kCodes[32] = {
    0x0000, 0x3f00, 0x3f80, 0x3fc0, 0x4000, 0x4040, 0x4080, 0x40c0, 0x8000, 0xbf00, 0xbf80,
    0xbfc0, 0xc000, 0xc040, 0xc080, 0xc0c0, 0x0000, 0x3f00, 0x3f80, 0x3fc0, 0x4000, 0x4040,
    0x4080, 0x40c0, 0x8000, 0xbf00, 0xbf80, 0xbfc0, 0xc000, 0xc040, 0xc080, 0xc0c0};

template <int R>
inline void add_code_pairs(const Product& p, int64_t row, int64_t d, const unsigned char* at,
                           __m512i table, __m512 (&sum)[R][4]) {
  for (int q = 0; q < 4; ++q, at += kGroupCodes / 4) {
    const __m512i words[4] = {_mm512_loadu_si512(at), _mm512_loadu_si512(at + 64),
                              _mm512_loadu_si512(at + 128), _mm512_loadu_si512(at + 192)};
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j, d += 2) {
      __m512bh w[4];
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c)
        w[c] = reinterpret_cast<__m512bh>(_mm512_permutexvar_epi16(
            _mm512_srli_epi16(words[c], static_cast<unsigned>(4 * j)), table));
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const __m512bh x = pair_at(p.rows[row + r], d);
#pragma GCC unroll 4
        for (int c = 0; c < 4; ++c) sum[r][c] = _mm512_dpbf16_ps(sum[r][c], x, w[c]);
      }
    }
  }
}

template <int R>
void code_pairs_tile(const Product& p, int64_t row) {
  const __m512i table = _mm512_load_si512(kCodes);
  float* out = p.out + row * kPanel;
  bool add = p.add;
  for (int64_t d = p.first; d < p.first + p.depth; d += kGroup, add = true) {
    const unsigned char* group = p.panel + d / kGroup * kGroupBytes;
    if (R <= 2)
      for (int i = 0; i < 17; ++i) __builtin_prefetch(group + 64 * i + 2 * kAhead);
    __m512 sum[R][4];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c) sum[r][c] = _mm512_setzero_ps();
    }
    add_code_pairs(p, row, d, group, table, sum);
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const Vec scale = Vec::load_scales(group + kGroupCodes + 16 * c);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        float* to = out + r * kPanel + 16 * c;
        Vec::fma({sum[r][c]}, scale, add ? Vec::load(to) : Vec::zero()).store(to);
      }
    }
  }
}

struct CodePairsTile {
  static constexpr int kRows = 5;  // with the words of the codes, six would not fit the registers
  static void run(const Product& p, int64_t row, int64_t height) {
    switch (height) {
      case 1: return code_pairs_tile<1>(p, row);
      case 2: return code_pairs_tile<2>(p, row);
      case 3: return code_pairs_tile<3>(p, row);
      case 4: return code_pairs_tile<4>(p, row);
      default: return code_pairs_tile<5>(p, row);
    }
  }
};

inline void widen_codes(const unsigned char* codes, __m512i table, unsigned char* pairs) {
  for (int q = 0; q < 4; ++q, codes += kGroupCodes / 4)
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j, pairs += 256)
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c) {
        const __m512i words = _mm512_loadu_si512(codes + 64 * c);
        _mm512_store_si512(pairs + 64 * c,
                           _mm512_permutexvar_epi16(
                               _mm512_srli_epi16(words, static_cast<unsigned>(4 * j)), table));
      }
}

void multiply_code_pairs(const Product& p) {
  if (p.count <= kFewRowsOfCodes) return for_each_tile<CodePairsTile>(p);
  alignas(64) unsigned char pairs[kGroup * kPanel * 2];
  const __m512i table = _mm512_load_si512(kCodes);
  Product scaled = p;
  scaled.format.scales = Scales::powers;
  for (int64_t d = p.first; d < p.first + p.depth; d += kGroup) {
    const unsigned char* codes = p.panel + d / kGroup * kGroupBytes;
    const CodeGroup group{d, kGroup, codes, codes + kGroupCodes, p.add || d > p.first, d / kGroup};
    widen_codes(codes, table, pairs);
    wide_rows(scaled, {&group, 0, kGroup, pairs});
  }
}

}  // namespace
}  // namespace moert::cpu::simd
