// Numbers of rows as they lie in memory: f32, bf16 and f16, one or eight at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../experts/strided.hpp"
#include "../port.cuh"

namespace moert::gpu {

MOERT_BOTH constexpr uint32_t bits_of(float value) { return __builtin_bit_cast(uint32_t, value); }
MOERT_BOTH constexpr float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }

MOERT_BOTH constexpr bool is_finite(float value) {
  return (bits_of(value) & 0x7fffffffu) < 0x7f800000u;
}

MOERT_BOTH constexpr float bf16_number(uint32_t bits) { return float_of(bits << 16); }
// To the nearest, an even one on a tie; NaN stays a quiet NaN.
MOERT_BOTH constexpr uint32_t bf16_bits(float value) {
  const uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return bits >> 16 | 0x40u;
  return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

MOERT_BOTH constexpr float f16_number(uint32_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 0x1fu,
                 fraction = bits & 0x3ffu;
  if (exponent == 0x1f) return float_of(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return float_of(sign | (exponent + 112) << 23 | fraction << 13);
  return float_of(sign | bits_of(static_cast<float>(fraction) * 0x1p-24f));
}
// The same; beyond the largest is infinity.
MOERT_BOTH constexpr uint32_t f16_bits(float value) {
  const uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;
  // Below 2^-14 the sum has the spacing of the result.
  if (magnitude < 0x38800000u) return sign | (bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u);
  return sign | (magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13;
}

// A type of row in code: Bits in memory, and what they mean.
template <Number N>
struct Numbers {
  using Bits = uint16_t;
  MOERT_BOTH static float widen(Bits bits) {
    return N == Number::bf16 ? bf16_number(bits) : f16_number(bits);
  }
  MOERT_BOTH static Bits narrow(float value) {
    return static_cast<Bits>(N == Number::bf16 ? bf16_bits(value) : f16_bits(value));
  }
};
template <>
struct Numbers<Number::f32> {
  using Bits = float;
  MOERT_BOTH static float widen(float value) { return value; }
  MOERT_BOTH static float narrow(float value) { return value; }
};

constexpr int kEight = 8;  // numbers that a thread reads or writes at once

// Eight numbers from `from` on, which is aligned to 16 bytes; the kernel may put others there.
template <Number N>
MOERT_DEVICE void load_eight(const typename Numbers<N>::Bits* from, float (&x)[kEight]) {
  if constexpr (N == Number::f32) {
    MOERT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const Word16 word = load16_plain(from + 4 * half);
      MOERT_UNROLL
      for (int i = 0; i < 4; ++i) x[4 * half + i] = float_of(word.part[i]);
    }
  } else {
    const Word16 word = load16_plain(from);
    MOERT_UNROLL
    for (int i = 0; i < kEight; ++i)
      x[i] = Numbers<N>::widen(static_cast<uint16_t>(word.part[i / 2] >> i % 2 * 16));
  }
}

template <Number N>
MOERT_DEVICE void store_eight(typename Numbers<N>::Bits* to, const float (&x)[kEight]) {
  auto* words = reinterpret_cast<Word16*>(to);
  if constexpr (N == Number::f32) {
    MOERT_UNROLL
    for (int half = 0; half < 2; ++half) {
      Word16 word;
      MOERT_UNROLL
      for (int i = 0; i < 4; ++i) word.part[i] = bits_of(x[4 * half + i]);
      words[half] = word;
    }
  } else {
    Word16 word;
    MOERT_UNROLL
    for (int i = 0; i < 4; ++i)
      word.part[i] = static_cast<uint32_t>(Numbers<N>::narrow(x[2 * i])) |
                     static_cast<uint32_t>(Numbers<N>::narrow(x[2 * i + 1])) << 16;
    words[0] = word;
  }
}

// One row that is read, and is 0 behind its end.
template <Number N>
struct SourceRow {
  const typename Numbers<N>::Bits* data;
  int64_t cols, stride;
  bool aligned;  // dense, and 16 bytes begin at every eighth column

  MOERT_DEVICE static SourceRow of(const StridedRows& rows, int64_t row, int64_t cols) {
    using Bits = typename Numbers<N>::Bits;
    const auto* data = static_cast<const Bits*>(rows.data) + row * rows.row_stride;
    return {data, cols, rows.col_stride,
            rows.col_stride == 1 && reinterpret_cast<uintptr_t>(data) % 16 == 0};
  }
  MOERT_DEVICE void read(int64_t first, float (&x)[kEight]) const {
    if (aligned && first % kEight == 0 && first + kEight <= cols)
      return load_eight<N>(data + first, x);
    MOERT_UNROLL
    for (int i = 0; i < kEight; ++i)
      x[i] = first + i < cols ? Numbers<N>::widen(data[(first + i) * stride]) : 0.0f;
  }
};

// The first `count` numbers, which may be written in one piece if `aligned`.
template <Number N>
MOERT_DEVICE void write_numbers(typename Numbers<N>::Bits* to, int64_t stride, bool aligned,
                                int64_t count, const float (&x)[kEight]) {
  if (aligned && count >= kEight) return store_eight<N>(to, x);
  MOERT_UNROLL
  for (int i = 0; i < kEight; ++i)
    if (i < count) to[i * stride] = Numbers<N>::narrow(x[i]);
}

}  // namespace moert::gpu
