// Eight f64 in two registers of AVX2. Included only by the file that is compiled for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

namespace moert::cpu::simd {
namespace {

// Contracts: wide_avx512.hpp.
struct Wide {
  __m256d a, b;

  static constexpr int kRows = 6;
  static constexpr int kColumns = 1;

  static Wide zero() { return {_mm256_setzero_pd(), _mm256_setzero_pd()}; }
  static Wide all(double x) { return {_mm256_set1_pd(x), _mm256_set1_pd(x)}; }
  static Wide load(const double* p) { return {_mm256_loadu_pd(p), _mm256_loadu_pd(p + 4)}; }
  static Wide load(const float* p) {
    return {_mm256_cvtps_pd(_mm_loadu_ps(p)), _mm256_cvtps_pd(_mm_loadu_ps(p + 4))};
  }
  void store(double* p) const {
    _mm256_storeu_pd(p, a);
    _mm256_storeu_pd(p + 4, b);
  }

  friend Wide operator+(Wide x, Wide y) {
    return {_mm256_add_pd(x.a, y.a), _mm256_add_pd(x.b, y.b)};
  }
  friend Wide operator*(Wide x, Wide y) {
    return {_mm256_mul_pd(x.a, y.a), _mm256_mul_pd(x.b, y.b)};
  }
  static Wide fma(Wide x, Wide y, Wide z) {
    return {_mm256_fmadd_pd(x.a, y.a, z.a), _mm256_fmadd_pd(x.b, y.b, z.b)};
  }
};

}  // namespace
}  // namespace moert::cpu::simd
