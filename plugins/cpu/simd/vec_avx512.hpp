// Sixteen f32 in one register of AVX-512. Included only by files that are compiled for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "wide_avx512.hpp"

namespace moert::cpu::simd {
namespace {

// The same names in every vec_*.hpp. Nothing here or in the templates over it calls the standard library:
// an inline function of it, compiled with these flags, could be the copy that the linker keeps for all.
struct Vec {
  __m512 v;

  // Rows and panels in a tile of the multiplication.
  static constexpr int kRows = 5;
  static constexpr int kColumns = 4;  // in units of sixteen
  using Doubles = Wide;

  static Vec zero() { return {_mm512_setzero_ps()}; }
  static Vec all(float x) { return {_mm512_set1_ps(x)}; }
  static Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
  void store(float* p) const { _mm512_storeu_ps(p, v); }

  // From bytes of weights. By way of an array of floats gcc would copy them through memory.
  static Vec load_f32(const unsigned char* p) { return {_mm512_loadu_ps(p)}; }
  // Sixteen pairs of bf16: their first and their second numbers.
  static void load_pairs(const unsigned char* p, Vec* first, Vec* second) {
    const __m512i raw = _mm512_loadu_si512(p);
    first->v = _mm512_castsi512_ps(_mm512_slli_epi32(raw, 16));
    second->v = _mm512_castsi512_ps(
        _mm512_and_si512(raw, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
  }
  static Vec load_f16(const unsigned char* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  // What sixteen pairs of words hold in nibble `j`: codes of e2m1, the first and the second of each pair. The
  // table's index is four bits wide and does not see those above.
  static void load_codes(const unsigned char* p, int j, Vec* first, Vec* second) {
    const __m512 table =
        _mm512_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6);
    const __m512i words = _mm512_loadu_si512(p);
    const auto shift = static_cast<unsigned>(4 * j);
    first->v = _mm512_permutexvar_ps(_mm512_srli_epi32(words, shift), table);
    second->v = _mm512_permutexvar_ps(_mm512_srli_epi32(words, shift + 16), table);
  }
  static Vec from_fp8(__m512i magnitude, __m512i sign) {
    // In its place a code is a number 2^120 too small; where its exponent is 0, one that has a digit too many.
    const __m512i least = _mm512_set1_epi32(1 << 23);
    const __mmask16 small = _mm512_cmplt_epi32_mask(magnitude, least);
    const __mmask16 nan = _mm512_cmpeq_epi32_mask(magnitude, _mm512_set1_epi32(127 << 20));
    const __m512i digit = _mm512_set1_epi32(121 << 23);
    const __m512i put = _mm512_add_epi32(
        magnitude, _mm512_mask_mov_epi32(_mm512_set1_epi32(120 << 23), small, digit));
    const __m512 number = _mm512_mask_sub_ps(_mm512_castsi512_ps(put), small,
                                             _mm512_castsi512_ps(put), _mm512_castsi512_ps(digit));
    const __m512i bits = _mm512_or_si512(_mm512_castps_si512(number), sign);
    return {_mm512_castsi512_ps(_mm512_mask_mov_epi32(bits, nan, _mm512_set1_epi32(0x7fc00000)))};
  }
  // Pairs of e4m3fn of sixteen columns, four in each sixteen bytes from `p` on: their first and their second
  // numbers. Reads eight bytes behind the last one, where a panel has more of them or its scales.
  static void load_fp8(const unsigned char* p, Vec* first, Vec* second) {
    const __m512i fours =
        _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 0, 0, 0, 0), _mm512_loadu_si512(p));
    const __m512i pairs = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(fours));
    const __m512i magnitude = _mm512_set1_epi32(127 << 20);
    const __m512i sign = _mm512_set1_epi32(static_cast<int>(0x80000000u));
    *first = from_fp8(_mm512_and_si512(_mm512_slli_epi32(pairs, 20), magnitude),
                      _mm512_and_si512(_mm512_slli_epi32(pairs, 24), sign));
    *second = from_fp8(_mm512_and_si512(_mm512_slli_epi32(pairs, 12), magnitude),
                       _mm512_and_si512(_mm512_slli_epi32(pairs, 16), sign));
  }
  // The same of int8.
  static void load_int8(const unsigned char* p, Vec* first, Vec* second) {
    const __m512i fours =
        _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 0, 0, 0, 0), _mm512_loadu_si512(p));
    const __m512i pairs = _mm512_cvtepi16_epi32(_mm512_castsi512_si256(fours));
    first->v = _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(pairs, 24), 24));
    second->v = _mm512_cvtepi32_ps(_mm512_srai_epi32(pairs, 8));
  }
  // Sixteen scales of e8m0. There is no NaN among them.
  static Vec load_scales(const unsigned char* p) {
    const __m512i codes =
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return {_mm512_castsi512_ps(  // 0 is 2^-127, which is subnormal
        _mm512_max_epi32(_mm512_slli_epi32(codes, 23), _mm512_set1_epi32(0x00400000)))};
  }
  void store_f16(void* p) const {
    _mm256_storeu_si256(static_cast<__m256i*>(p),
                        _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  // Nearest even; NaN stays NaN.
  void store_bf16(void* p) const {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i near = _mm512_add_epi32(bits, _mm512_add_epi32(last, _mm512_set1_epi32(0x7fff)));
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x00400000));
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i chosen = _mm512_mask_mov_epi32(near, nan, quiet);
    _mm256_storeu_si256(static_cast<__m256i*>(p),
                        _mm512_cvtepi32_epi16(_mm512_srli_epi32(chosen, 16)));
  }

  friend Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
  friend Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
  friend Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
  friend Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
  // a * b + c, rounded once.
  static Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  // b where either is NaN.
  static Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
  static Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
  // x < 0 ? a : b
  static Vec if_negative(Vec x, Vec a, Vec b) {
    return {_mm512_mask_mov_ps(b.v, _mm512_cmp_ps_mask(x.v, _mm512_setzero_ps(), _CMP_LT_OQ), a.v)};
  }
  static Vec minus_abs(Vec x) {
    return {_mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(x.v),
                                                _mm512_set1_epi32(static_cast<int>(0x80000000u))))};
  }
  static Vec round(Vec x) {
    return {_mm512_roundscale_ps(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  // x * 2^n for whole n in [-160, 128], also where the result is subnormal.
  static Vec scale(Vec x, Vec n) { return {_mm512_scalef_ps(x.v, n.v)}; }
};

}  // namespace
}  // namespace moert::cpu::simd
