// What stands between and behind the multiplications, for any Vec.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tile_bytes.hpp"
#include "tile_gate.hpp"
#include "tile_mxfp4.hpp"

namespace moert::cpu::simd {
namespace {

// e^x to about one unit of the last place; 0 below -106, infinite above 89, NaN for NaN.
template <class V>
V exponential(V x) {
  const V y = V::max(V::all(-106.0f), V::min(V::all(89.0f), x));
  const V n = V::round(y * V::all(1.44269504f));
  // y - n ln 2, with ln 2 in two parts, the first of so few digits that n times it is exact.
  const V r = V::fma(n, V::all(-1.42860677e-6f), V::fma(n, V::all(-0.693145752f), y));
  // The first terms of the series: r is at most 0.35.
  V sum = V::all(1.0f / 5040);
  sum = V::fma(sum, r, V::all(1.0f / 720));
  sum = V::fma(sum, r, V::all(1.0f / 120));
  sum = V::fma(sum, r, V::all(1.0f / 24));
  sum = V::fma(sum, r, V::all(1.0f / 6));
  sum = V::fma(sum, r, V::all(0.5f));
  sum = V::fma(sum, r, V::all(1.0f));
  sum = V::fma(sum, r, V::all(1.0f));
  return V::scale(sum, n);
}

// 1 / (1 + e^-x), by a power that cannot overflow.
template <class V>
V sigmoid(V x) {
  const V e = exponential(V::minus_abs(x));
  const V one = V::all(1.0f);
  return V::if_negative(x, e, one) / (one + e);
}

template <class V>
struct Bent {
  V alpha, beta, limit, minus_limit;
  explicit Bent(const Bend& b)
      : alpha(V::all(b.alpha)),
        beta(V::all(b.beta)),
        limit(V::all(b.limit)),
        minus_limit(V::all(-b.limit)) {}

  // min and max are written such that NaN stays NaN.
  V at_most(V x) const { return V::min(limit, x); }
  V clamp(V x) const { return V::max(minus_limit, V::min(limit, x)); }
  static V silu(V x) { return x * sigmoid(x); }
  static V gelu_tanh(V x) {
    // (1 + tanh z) / 2 = sigmoid(2 z), z = sqrt(2 / pi) (x + 0.044715 x^3)
    const V cubic = V::fma(x * x, V::all(0.044715f) * x, x);
    return x * sigmoid(V::all(1.59576912f) * cubic);
  }

  template <Curve K>
  V plain(V x) const {
    const V positive = V::max(V::zero(), x);
    if constexpr (K == Curve::silu) return silu(at_most(x));
    if constexpr (K == Curve::gelu_tanh) return gelu_tanh(x);
    if constexpr (K == Curve::relu) return positive;
    if constexpr (K == Curve::relu2) return positive * positive;
    return x;
  }
  template <Curve K>
  V gated(V g, V u) const {
    if constexpr (K == Curve::silu) return silu(at_most(g)) * clamp(u);
    if constexpr (K == Curve::swigluoai) {
      const V x = at_most(g);
      return x * sigmoid(alpha * x) * (clamp(u) + beta);
    }
    if constexpr (K == Curve::swiglustep) return at_most(silu(g)) * clamp(u);
    if constexpr (K == Curve::done) return g;
    return plain<K>(g) * u;
  }
};

template <class V>
V biased(const float* sums, const float* bias, int64_t column) {
  const V sum = V::load(sums + column);
  return bias == nullptr ? sum : sum + V::load(bias + column);
}

template <class V>
void put(V v, bool bf16, void* out, int64_t index) {
  if (bf16)
    v.store_bf16(static_cast<unsigned char*>(out) + 2 * index);
  else
    v.store(static_cast<float*>(out) + index);
}

template <class V, Curve K>
void bend_all(const Middle& m) {
  const Bent<V> bent(m.bend);
  for (int64_t r = 0; r < m.count; ++r) {
    const float* sums = m.sums + r * kPanel;
    if (m.bend.gated) {
      for (int64_t c = 0; c < kPanel / 2; c += 16) {
        const V g = biased<V>(sums, m.bias, c);
        const V u = biased<V>(sums, m.bias, kPanel / 2 + c);
        put(bent.template gated<K>(g, u), m.bf16, m.out, r * m.stride + c);
      }
    } else {
      for (int64_t c = 0; c < kPanel; c += 16)
        put(bent.template plain<K>(biased<V>(sums, m.bias, c)), m.bf16, m.out, r * m.stride + c);
    }
  }
}

template <class V>
void middle(const Middle& m) {
  switch (m.bend.curve) {
    case Curve::silu: return bend_all<V, Curve::silu>(m);
    case Curve::gelu_tanh: return bend_all<V, Curve::gelu_tanh>(m);
    case Curve::relu: return bend_all<V, Curve::relu>(m);
    case Curve::relu2: return bend_all<V, Curve::relu2>(m);
    case Curve::swigluoai: return bend_all<V, Curve::swigluoai>(m);
    case Curve::swiglustep: return bend_all<V, Curve::swiglustep>(m);
    case Curve::done: return bend_all<V, Curve::done>(m);
  }
}

template <class V>
void weigh(const Weigh& w) {
  for (int64_t r = 0; r < w.count; ++r) {
    const V factor = V::all(w.factors[r]);
    for (int64_t c = 0; c < kPanel; c += 16)
      (factor * biased<V>(w.sums + r * kPanel, w.bias, c)).store(w.to[r] + c);
  }
}

template <class V>
void store_rows(V v, Rows type, void* to) {
  switch (type) {
    case Rows::f32: {
      float numbers[16];
      v.store(numbers);
      __builtin_memcpy(to, numbers, sizeof numbers);
      return;
    }
    case Rows::bf16: return v.store_bf16(to);
    case Rows::f16: return v.store_f16(to);
  }
}

template <class V>
void combine(const Combine& m) {
  const int64_t size = m.type == Rows::f32 ? 4 : 2;
  auto* out = static_cast<unsigned char*>(m.out);
  for (int64_t c = 0; c < m.columns; c += 16) {
    V sum = V::zero();
    for (int64_t i = 0; i < m.count; ++i) sum = sum + V::load(m.terms[i] + c);
    const int64_t left = m.columns - c;
    if (left >= 16) {
      store_rows(sum, m.type, out + c * size);
      continue;
    }
    unsigned char last[64];
    store_rows(sum, m.type, last);
    for (int64_t b = 0; b < left * size; ++b) out[c * size + b] = last[b];
  }
}

// A level's kernels; those for bf16 rows, if it has any, by Storage::bf16, ::mxfp4, ::fp8 and ::int8.
template <class V>
constexpr Kernels kernels_of(void (*pairs)(const Product&) = nullptr,
                             void (*mxfp4_pairs)(const Product&) = nullptr,
                             void (*fp8_pairs)(const Product&) = nullptr,
                             void (*int8_pairs)(const Product&) = nullptr,
                             void (*code_rows)(const RowCoding&) = nullptr) {
  return {{pairs, nullptr, nullptr, mxfp4_pairs, fp8_pairs, int8_pairs},
          {&multiply_f32<V, Storage::bf16>, &multiply_f32<V, Storage::f16>,
           &multiply_f32<V, Storage::f32>, &multiply_mxfp4<V>, &multiply_bytes<V, Storage::fp8>,
           &multiply_bytes<V, Storage::int8>},
          &middle<V>,
          &weigh<V>,
          &combine<V>,
          code_rows,
          &multiply_gate<typename V::Doubles>};
}

}  // namespace
}  // namespace moert::cpu::simd
