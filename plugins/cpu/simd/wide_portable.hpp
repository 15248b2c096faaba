// Eight f64 in an array: what every processor has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace moert::cpu::simd {
namespace {

// Contracts: wide_avx512.hpp.
struct Wide {
  double v[8];

  static constexpr int kRows = 2;
  static constexpr int kColumns = 1;

  // f(i) for each number.
  template <class F>
  static Wide each(F f) {
    Wide out;
    for (int i = 0; i < 8; ++i) out.v[i] = f(i);
    return out;
  }
  static Wide zero() { return all(0.0); }
  static Wide all(double x) {
    return each([x](int) { return x; });
  }
  static Wide load(const double* p) {
    return each([p](int i) { return p[i]; });
  }
  static Wide load(const float* p) {
    return each([p](int i) { return static_cast<double>(p[i]); });
  }
  void store(double* p) const {
    for (int i = 0; i < 8; ++i) p[i] = v[i];
  }

  friend Wide operator+(const Wide& a, const Wide& b) {
    return each([&](int i) { return a.v[i] + b.v[i]; });
  }
  friend Wide operator*(const Wide& a, const Wide& b) {
    return each([&](int i) { return a.v[i] * b.v[i]; });
  }
  static Wide fma(const Wide& a, const Wide& b, const Wide& c) { return a * b + c; }
};

}  // namespace
}  // namespace moert::cpu::simd
