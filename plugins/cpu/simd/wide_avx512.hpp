// Eight f64 in one register of AVX-512. Included only by files that are compiled for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

namespace moert::cpu::simd {
namespace {

// The same names in every wide_*.hpp, and the same care as in vec_avx512.hpp.
struct Wide {
  __m512d v;

  // Rows and columns in a tile of the gate's multiplication.
  static constexpr int kRows = 6;
  static constexpr int kColumns = 4;  // in units of eight

  static Wide zero() { return {_mm512_setzero_pd()}; }
  static Wide all(double x) { return {_mm512_set1_pd(x)}; }
  static Wide load(const double* p) { return {_mm512_loadu_pd(p)}; }
  static Wide load(const float* p) { return {_mm512_cvtps_pd(_mm256_loadu_ps(p))}; }
  void store(double* p) const { _mm512_storeu_pd(p, v); }

  friend Wide operator+(Wide a, Wide b) { return {_mm512_add_pd(a.v, b.v)}; }
  friend Wide operator*(Wide a, Wide b) { return {_mm512_mul_pd(a.v, b.v)}; }
  // a * b + c for products that are exact, so that it does not matter how often it is rounded.
  static Wide fma(Wide a, Wide b, Wide c) { return {_mm512_fmadd_pd(a.v, b.v, c.v)}; }
};

}  // namespace
}  // namespace moert::cpu::simd
