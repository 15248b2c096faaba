// Sixteen f32 in two registers of AVX2. Included only by the file that is compiled for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "wide_avx2.hpp"

namespace moert::cpu::simd {
namespace {

// Contracts: vec_avx512.hpp.
struct Vec {
  __m256 a, b;

  static constexpr int kRows = 6;
  static constexpr int kColumns = 1;
  using Doubles = Wide;

  static Vec zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Vec all(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static Vec load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  void store(float* p) const {
    _mm256_storeu_ps(p, a);
    _mm256_storeu_ps(p + 8, b);
  }

  static Vec load_f32(const unsigned char* p) { return load(reinterpret_cast<const float*>(p)); }
  static __m256i load_bits(const unsigned char* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static __m256 first_of(__m256i pairs) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
  }
  static __m256 second_of(__m256i pairs) {
    return _mm256_castsi256_ps(
        _mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
  }
  static void load_pairs(const unsigned char* p, Vec* first, Vec* second) {
    const __m256i low = load_bits(p);
    const __m256i high = load_bits(p + 32);
    *first = {first_of(low), first_of(high)};
    *second = {second_of(low), second_of(high)};
  }
  static Vec load_f16(const unsigned char* p) {
    const __m256i raw = load_bits(p);
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(raw)),
            _mm256_cvtph_ps(_mm256_extracti128_si256(raw, 1))};
  }
  // The table's index is three bits wide; the fourth is the sign.
  static __m256 codes_of(__m256i words, int shift) {
    const __m256 table = _mm256_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6);
    const __m256i codes = _mm256_srli_epi32(words, shift);
    const __m256i sign = _mm256_slli_epi32(_mm256_and_si256(codes, _mm256_set1_epi32(8)), 28);
    return _mm256_or_ps(_mm256_permutevar8x32_ps(table, codes), _mm256_castsi256_ps(sign));
  }
  static void load_codes(const unsigned char* p, int j, Vec* first, Vec* second) {
    const __m256i low = load_bits(p);
    const __m256i high = load_bits(p + 32);
    *first = {codes_of(low, 4 * j), codes_of(high, 4 * j)};
    *second = {codes_of(low, 4 * j + 16), codes_of(high, 4 * j + 16)};
  }
  static __m256 from_fp8(__m256i magnitude, __m256i sign) {
    const __m256i digit = _mm256_set1_epi32(121 << 23);
    const __m256 large =
        _mm256_castsi256_ps(_mm256_add_epi32(magnitude, _mm256_set1_epi32(120 << 23)));
    const __m256 small = _mm256_sub_ps(_mm256_castsi256_ps(_mm256_add_epi32(magnitude, digit)),
                                       _mm256_castsi256_ps(digit));
    const __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(1 << 23), magnitude);
    const __m256i nan = _mm256_cmpeq_epi32(magnitude, _mm256_set1_epi32(127 << 20));
    const __m256 number = _mm256_blendv_ps(large, small, _mm256_castsi256_ps(is_small));
    return _mm256_or_ps(number, _mm256_castsi256_ps(_mm256_or_si256(sign, nan)));
  }
  static __m256i byte_pairs(const unsigned char* p) {
    uint64_t fours[2];
    __builtin_memcpy(&fours[0], p, 8);
    __builtin_memcpy(&fours[1], p + 16, 8);
    return _mm256_cvtepu16_epi32(
        _mm_set_epi64x(static_cast<int64_t>(fours[1]), static_cast<int64_t>(fours[0])));
  }
  static __m256 fp8_of(__m256i pairs, int up) {  // the byte that `up` bits bring to the top
    const __m256i sign = _mm256_set1_epi32(static_cast<int>(0x80000000u));
    return from_fp8(
        _mm256_and_si256(_mm256_slli_epi32(pairs, up - 4), _mm256_set1_epi32(127 << 20)),
        _mm256_and_si256(_mm256_slli_epi32(pairs, up), sign));
  }
  static void load_fp8(const unsigned char* p, Vec* first, Vec* second) {
    const __m256i low = byte_pairs(p);
    const __m256i high = byte_pairs(p + 32);
    *first = {fp8_of(low, 24), fp8_of(high, 24)};
    *second = {fp8_of(low, 16), fp8_of(high, 16)};
  }
  static __m256 int8_of(__m256i pairs, int up) {
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(pairs, up), 24));
  }
  static void load_int8(const unsigned char* p, Vec* first, Vec* second) {
    const __m256i low = byte_pairs(p);
    const __m256i high = byte_pairs(p + 32);
    *first = {int8_of(low, 24), int8_of(high, 24)};
    *second = {int8_of(low, 16), int8_of(high, 16)};
  }
  static __m256 scales_of(__m128i codes) {
    return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_slli_epi32(_mm256_cvtepu8_epi32(codes), 23),
                                                _mm256_set1_epi32(0x00400000)));
  }
  static Vec load_scales(const unsigned char* p) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {scales_of(codes), scales_of(_mm_srli_si128(codes, 8))};
  }
  void store_f16(void* p) const {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    auto* to = static_cast<__m128i*>(p);
    _mm_storeu_si128(to, _mm256_cvtps_ph(a, kNearest));
    _mm_storeu_si128(to + 1, _mm256_cvtps_ph(b, kNearest));
  }
  static __m256i bf16_bits(__m256 x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i near = _mm256_add_epi32(bits, _mm256_add_epi32(last, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_blendv_epi8(near, quiet, nan), 16);
  }
  void store_bf16(void* p) const {
    // Packing works on halves of 128 bits: the middle two quarters change places.
    const __m256i packed = _mm256_packus_epi32(bf16_bits(a), bf16_bits(b));
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
  }

  friend Vec operator+(Vec x, Vec y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
  friend Vec operator-(Vec x, Vec y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
  friend Vec operator*(Vec x, Vec y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
  friend Vec operator/(Vec x, Vec y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
  static Vec fma(Vec x, Vec y, Vec z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
  }
  static Vec min(Vec x, Vec y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
  static Vec max(Vec x, Vec y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
  static __m256 pick(__m256 x, __m256 yes, __m256 no) {
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ));
  }
  static Vec if_negative(Vec x, Vec yes, Vec no) {
    return {pick(x.a, yes.a, no.a), pick(x.b, yes.b, no.b)};
  }
  static Vec minus_abs(Vec x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_or_ps(x.a, sign), _mm256_or_ps(x.b, sign)};
  }
  static Vec round(Vec x) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(x.a, kNearest), _mm256_round_ps(x.b, kNearest)};
  }
  static __m256 power_of_two(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
  }
  // In two halves: 2^n itself may be no normal number.
  static __m256 scale(__m256 x, __m256 n) {
    const __m256i whole = _mm256_cvtps_epi32(n);
    const __m256i half = _mm256_srai_epi32(whole, 1);
    return _mm256_mul_ps(_mm256_mul_ps(x, power_of_two(half)),
                         power_of_two(_mm256_sub_epi32(whole, half)));
  }
  static Vec scale(Vec x, Vec n) { return {scale(x.a, n.a), scale(x.b, n.b)}; }
};

}  // namespace
}  // namespace moert::cpu::simd
