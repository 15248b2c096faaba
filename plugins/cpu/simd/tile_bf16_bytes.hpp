// The multiplication of bf16 rows with a panel of bytes: codes become bf16, pairs are multiplied.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codes_fp8.hpp"
#include "groups_bytes.hpp"
#include "tile_bf16.hpp"

namespace moert::cpu::simd {
namespace {

// Up to so many rows codes are widened in registers, once for each tile; more rows share what was widened to memory.
inline constexpr int64_t kFewRowsOfCodes = 10;

// High and low bytes of what codes without their sign are as bf16, as two registers index them.
struct ByteTable {
  alignas(64) unsigned char high[128];
  alignas(64) unsigned char low[128];
};
constexpr uint32_t int8_as_bf16(uint32_t magnitude) {
  uint32_t exponent = 127 + 7;
  if (magnitude == 0) return 0;
  for (; magnitude < 128; --exponent) magnitude *= 2;
  return exponent << 7 | (magnitude & 127);
}
template <Storage S>
constexpr ByteTable byte_table() {
  ByteTable bytes{};
  for (uint32_t code = 0; code < 128; ++code) {
    const uint32_t number = S == Storage::fp8 ? fp8_as_bf16(code) : int8_as_bf16(code);
    bytes.high[code] = static_cast<unsigned char>(number >> 8);
    bytes.low[code] = static_cast<unsigned char>(number);
  }
  return bytes;
}
template <Storage S>
constexpr ByteTable kByteTable = byte_table<S>();

template <Storage S>
struct Widening {
  __m512i high0 = _mm512_load_si512(kByteTable<S>.high);
  __m512i high1 = _mm512_load_si512(kByteTable<S>.high + 64);
  __m512i low0 = _mm512_load_si512(kByteTable<S>.low);
  __m512i low1 = _mm512_load_si512(kByteTable<S>.low + 64);

  // A pair of the depth of all columns. The table's index is seven bits wide and does not see the sign.
  void widen(const unsigned char* at, __m512i (&w)[4]) const {
    const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const __m512i codes = _mm512_loadu_si512(at + 64 * h);
      const __m512i index = S == Storage::fp8 ? codes : _mm512_abs_epi8(codes);
      const __m512i low = _mm512_permutex2var_epi8(low0, index, low1);
      __m512i magnitude = _mm512_permutex2var_epi8(high0, index, high1);
      // 128 is not in the table; its low byte is 0, too.
      if (S == Storage::int8)
        magnitude =
            _mm512_mask_mov_epi8(magnitude, _mm512_movepi8_mask(index), _mm512_set1_epi8(0x43));
      // magnitude | (codes & sign)
      const __m512i high = _mm512_ternarylogic_epi32(magnitude, codes, sign, 0xf8);
      w[2 * h] = _mm512_unpacklo_epi8(low, high);
      w[2 * h + 1] = _mm512_unpackhi_epi8(low, high);
    }
  }
};

// sum += R rows times the pairs of widened codes that `widen` gives; an odd number ends by itself.
template <int R, class Widen>
inline void add_wide_pairs(const Product& p, int64_t row, int64_t first, int64_t numbers,
                           Widen widen, __m512 (&sum)[R][4]) {
  const auto step = [&](int64_t d, auto pair) {
    __m512i w[4];
    widen(d, w);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512bh x = pair(p.rows[row + r], first + d);
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c)
        sum[r][c] = _mm512_dpbf16_ps(sum[r][c], x, reinterpret_cast<__m512bh>(w[c]));
    }
  };
  int64_t d = 0;
  for (; d + 2 <= numbers; d += 2) step(d, &pair_at);
  if (d < numbers) step(d, &last_at);
}

template <int R>
inline void clear(__m512 (&sum)[R][4]) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) sum[r][c] = _mm512_setzero_ps();
  }
}

// out (+)= scale * sum
template <int R>
inline void add_scaled(const Product& p, const CodeGroup& group, int64_t row,
                       const __m512 (&sum)[R][4]) {
  float* out = p.out + row * kPanel;
  Vec of_row[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
    of_row[r] = Vec::all(
        p.row_scales == nullptr ? 1.0f : p.row_scales[row + r][group.index / p.row_scale_step]);
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const Vec scale = group_scales<Vec>(p.format.scales, group.scales, c);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      float* to = out + r * kPanel + 16 * c;
      Vec::fma({sum[r][c]}, scale * of_row[r], group.add ? Vec::load(to) : Vec::zero()).store(to);
    }
  }
}

template <Storage S, int R>
void byte_pairs_tile(const Product& p, int64_t row) {
  const Widening<S> table;
  each_code_group(p, [&](const CodeGroup& group) {
    __m512 sum[R][4];
    clear(sum);
    add_wide_pairs<R>(
        p, row, group.first, group.numbers,
        [&](int64_t d, __m512i(&w)[4]) {
          const unsigned char* at = group.codes + d * kPanel;
          if (R <= 4) {
            __builtin_prefetch(at + kAhead);
            __builtin_prefetch(at + kAhead + 64);
          }
          table.widen(at, w);
        },
        sum);
    add_scaled<R>(p, group, row, sum);
  });
}

template <Storage S>
struct BytePairsTile {
  static constexpr int kRows = 5;  // with the tables six would not fit the registers
  static void run(const Product& p, int64_t row, int64_t height) {
    switch (height) {
      case 1: return byte_pairs_tile<S, 1>(p, row);
      case 2: return byte_pairs_tile<S, 2>(p, row);
      case 3: return byte_pairs_tile<S, 3>(p, row);
      case 4: return byte_pairs_tile<S, 4>(p, row);
      default: return byte_pairs_tile<S, 5>(p, row);
    }
  }
};

// A part of a group that was widened: numbers [first, first + numbers) of it, as bf16 pairs.
struct WideChunk {
  const CodeGroup* group;
  int64_t first, numbers;
  const unsigned char* pairs;
};

// The chain of a group that is cut into chunks goes on where it was, by way of `out`: only the one group of a
// panel can be that long, so there is nothing else in it.
template <int R>
void wide_tile(const Product& p, const WideChunk& chunk, int64_t row) {
  float* out = p.out + row * kPanel;
  __m512 sum[R][4];
  clear(sum);
  if (chunk.first > 0) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c) sum[r][c] = _mm512_loadu_ps(out + r * kPanel + 16 * c);
    }
  }
  add_wide_pairs<R>(
      p, row, chunk.group->first + chunk.first, chunk.numbers,
      [&](int64_t d, __m512i(&w)[4]) {
#pragma GCC unroll 4
        for (int c = 0; c < 4; ++c) w[c] = _mm512_load_si512(chunk.pairs + d * 128 + 64 * c);
      },
      sum);
  if (chunk.first + chunk.numbers == chunk.group->numbers)
    return add_scaled<R>(p, *chunk.group, row, sum);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) _mm512_storeu_ps(out + r * kPanel + 16 * c, sum[r][c]);
  }
}

inline void wide_rows(const Product& p, const WideChunk& chunk) {
  constexpr int64_t kRows = 6;
  for (int64_t row = 0; row < p.count;) {
    const int64_t left = p.count - row;
    const int64_t tiles = (left + kRows - 1) / kRows;
    const int64_t height = (left + tiles - 1) / tiles;
    switch (height) {
      case 4: wide_tile<4>(p, chunk, row); break;
      case 5: wide_tile<5>(p, chunk, row); break;
      case 6: wide_tile<6>(p, chunk, row); break;
      default: __builtin_unreachable();  // kFewRowsOfCodes + 1 rows and more are cut into no less
    }
    row += height;
  }
}

template <Storage S>
void multiply_byte_pairs(const Product& p) {
  if (p.count <= kFewRowsOfCodes) return for_each_tile<BytePairsTile<S>>(p);
  alignas(64) unsigned char pairs[kCodeChunk * kPanel * 2];
  const Widening<S> table;
  each_code_group(p, [&](const CodeGroup& group) {
    for (int64_t first = 0; first < group.numbers; first += kCodeChunk) {
      const int64_t numbers =
          group.numbers - first < kCodeChunk ? group.numbers - first : kCodeChunk;
      for (int64_t d = 0; d < numbers; d += 2) {
        __m512i w[4];
        table.widen(group.codes + (first + d) * kPanel, w);
#pragma GCC unroll 4
        for (int c = 0; c < 4; ++c) _mm512_store_si512(pairs + d * 128 + 64 * c, w[c]);
      }
      wide_rows(p, {&group, first, numbers, pairs});
    }
  });
}

}  // namespace
}  // namespace moert::cpu::simd
