// Rows as codes with scales, for kernels that multiply bf16.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels.hpp"
#include "vec_avx512.hpp"

namespace moert::cpu::simd {
namespace {

inline __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffffu : (1u << count) - 1);
}
inline __m512i magnitude_bits(__m512 x) {
  return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
}
inline __mmask16 finite_lanes(__m512 x) {
  return _mm512_cmplt_epi32_mask(magnitude_bits(x), _mm512_set1_epi32(0x7f800000));
}

// The largest magnitude of what is finite.
inline float amax_of(const float* row, int64_t count) {
  __m512i most = _mm512_setzero_si512();
  for (int64_t i = 0; i < count; i += 16) {
    const __m512 x = _mm512_maskz_loadu_ps(first_lanes(count - i), row + i);
    most = _mm512_mask_max_epi32(most, finite_lanes(x), most, magnitude_bits(x));
  }
  return __builtin_bit_cast(float, _mm512_reduce_max_epi32(most));
}

inline float row_scale(ScaleRule rule, float amax) {
  constexpr float kLargest = 448;
  constexpr float kLeastToken = 1 / (kLargest * 512);
  const float floor = amax < 1e-4f ? 1e-4f : amax;
  switch (rule) {
    case ScaleRule::token: {
      const float scale = amax / kLargest;
      return scale < kLeastToken ? kLeastToken : scale;
    }
    case ScaleRule::group: return floor / kLargest;
    case ScaleRule::powers: {
      // Far from subnormal numbers, whose fractions would not be what these bits are.
      const auto bits = __builtin_bit_cast(uint32_t, floor / kLargest);
      return __builtin_bit_cast(float, (bits + 0x7fffffu) & 0x7f800000u);
    }
    case ScaleRule::integer: return amax / 127;
    case ScaleRule::mx: break;
  }
  if (amax == 0) return 1;
  // The exponent of a subnormal number does not matter: 8 less is below the least one.
  const auto exponent = static_cast<int32_t>(__builtin_bit_cast(uint32_t, amax) >> 23) - 8;
  return __builtin_bit_cast(float,
                            exponent <= 0 ? 0x00400000u : static_cast<uint32_t>(exponent) << 23);
}

// The nearest number of e4m3fn, an even one on a tie.
inline __m512 nearest_e4m3(__m512 x) {
  const __m512i bits = magnitude_bits(x);
  // Three digits behind the first one remain; below 2^-6 all numbers are multiples of 2^-9.
  const __m512i last = _mm512_and_si512(_mm512_srli_epi32(bits, 20), _mm512_set1_epi32(1));
  const __m512i near = _mm512_andnot_si512(
      _mm512_set1_epi32(0xfffff),
      _mm512_add_epi32(bits, _mm512_add_epi32(last, _mm512_set1_epi32(0x7ffff))));
  const __m512 align = _mm512_set1_ps(0x1p14f);
  const __m512 small = _mm512_sub_ps(_mm512_add_ps(_mm512_castsi512_ps(bits), align), align);
  const __mmask16 is_small = _mm512_cmplt_epi32_mask(bits, _mm512_set1_epi32(121 << 23));
  const __m512i chosen = _mm512_mask_mov_epi32(near, is_small, _mm512_castps_si512(small));
  const __m512i sign = _mm512_set1_epi32(static_cast<int>(0x80000000u));
  return _mm512_castsi512_ps(
      _mm512_or_si512(chosen, _mm512_and_si512(_mm512_castps_si512(x), sign)));
}

// In place too: what is written ends before what is still to be read.
inline void code_group(const float* row, int64_t count, bool integers, bool zeros, float scale,
                       unsigned char* codes) {
  const __m512 by = _mm512_set1_ps(scale);
  const __m512 largest = _mm512_set1_ps(integers ? 127 : 448);
  const __mmask16 none = zeros ? 0xffff : 0;
  for (int64_t i = 0; i < count; i += 16) {
    const __mmask16 lanes = first_lanes(count - i);
    const __m512 x = _mm512_maskz_loadu_ps(lanes, row + i);
    const __m512 within = _mm512_max_ps(_mm512_sub_ps(_mm512_setzero_ps(), largest),
                                        _mm512_min_ps(largest, _mm512_div_ps(x, by)));
    const __m512 near =
        integers ? _mm512_roundscale_ps(within, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
                 : nearest_e4m3(within);
    const __m512 code =
        _mm512_mask_mov_ps(x, finite_lanes(x), _mm512_mask_mov_ps(near, none, _mm512_setzero_ps()));
    unsigned char words[32];
    Vec{code}.store_bf16(words);
    const int64_t left = count - i;
    __builtin_memcpy(codes + 2 * i, words, static_cast<size_t>(left < 16 ? 2 * left : 32));
  }
}

void code_rows(const RowCoding& c) {
  auto* codes = static_cast<unsigned char*>(c.codes);
  for (int64_t first = 0, g = 0; first < c.depth; first += c.group, ++g) {
    const int64_t count = c.depth - first < c.group ? c.depth - first : c.group;
    const float scale = row_scale(c.rule, amax_of(c.row + first, count));
    // What is all zeros, or too small to have a scale, becomes zeros; infinity beside them stays what it is.
    const bool zeros = scale == 0;
    c.scales[g] = zeros ? 1 : scale;
    code_group(c.row + first, count, c.rule == ScaleRule::integer, zeros, c.scales[g],
               codes + 2 * first);
  }
}

}  // namespace
}  // namespace moert::cpu::simd
