// Floats of eight and four bits: exact widening, and rounding to nearest even that saturates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include <moert/sdk/dtypes.hpp>

// Definitions: OCP 8-bit Floating Point Specification 1.0 (e4m3fn, e5m2), OCP Microscaling Formats 1.0
// (e8m0, e2m1). e4m3fnuz is the one of AMD's CDNA 3: one more in the bias, no negative zero, one NaN.
//
// Narrowing keeps a finite number finite: what lies beyond the largest becomes the largest. NaN stays
// NaN. Infinity stays infinity where the format has one (e5m2) and becomes the largest number elsewhere.
// All functions are pure: any thread, host and device code.
namespace moert {

namespace detail {

// A sign, `Exponent` bits with the given bias, `Fraction` bits. A magnitude is a code without its sign.
template <int Exponent, int Fraction, int Bias>
struct SmallFloat {
  static constexpr uint32_t kSign = 1u << (Exponent + Fraction);
  // Distance of f32's exponent field from this one's, in units of the code.
  static constexpr uint32_t kRebias = static_cast<uint32_t>(127 - Bias) << Fraction;
  static constexpr uint32_t kCut = 23 - Fraction;
  static constexpr float power_of_two(int exponent) {
    return bits_as<float>(static_cast<uint32_t>(exponent + 127) << 23);
  }

  static constexpr float widen(uint32_t magnitude) {
    if (magnitude >> Fraction == 0)
      return static_cast<float>(magnitude) * power_of_two(1 - Bias - Fraction);
    return bits_as<float>((magnitude + kRebias) << kCut);
  }
  // The nearest magnitude, the even one of two; of a number far too large one that is far too large.
  static constexpr uint32_t narrow(float positive) {
    if (positive < power_of_two(1 - Bias)) {
      // The sum has the spacing of the subnormals, so that the addition rounds to one of them.
      constexpr float kAlign = power_of_two(24 - Bias - Fraction);
      return bits_as<uint32_t>(positive + kAlign) - bits_as<uint32_t>(kAlign);
    }
    const uint32_t bits = bits_as<uint32_t>(positive);
    const uint32_t half = (1u << (kCut - 1)) - 1 + ((bits >> kCut) & 1u);
    return ((bits + half) >> kCut) - kRebias;
  }
};

using E4M3FN = SmallFloat<4, 3, 7>;
using E4M3FNUZ = SmallFloat<4, 3, 8>;
using E5M2 = SmallFloat<5, 2, 15>;
using E2M1 = SmallFloat<2, 1, 1>;

inline constexpr float kQuietNan = std::numeric_limits<float>::quiet_NaN();

constexpr bool is_negative(float value) { return bits_as<uint32_t>(value) >> 31 != 0; }
constexpr float magnitude_of(float value) {
  return bits_as<float>(bits_as<uint32_t>(value) & 0x7fffffffu);
}
constexpr uint32_t at_most(uint32_t magnitude, uint32_t largest) {
  return magnitude < largest ? magnitude : largest;
}

}  // namespace detail

constexpr float e4m3fn_to_f32(uint8_t code) {
  const uint32_t magnitude = code & 0x7fu;
  if (magnitude == 0x7f) return detail::kQuietNan;
  const float value = detail::E4M3FN::widen(magnitude);
  return (code & 0x80u) != 0 ? -value : value;
}
constexpr uint8_t f32_to_e4m3fn(float value) {
  const uint32_t sign = detail::is_negative(value) ? 0x80 : 0;
  if (value != value) return static_cast<uint8_t>(sign | 0x7f);
  const uint32_t magnitude = detail::E4M3FN::narrow(detail::magnitude_of(value));
  return static_cast<uint8_t>(sign | detail::at_most(magnitude, 0x7e));
}

constexpr float e4m3fnuz_to_f32(uint8_t code) {
  if (code == 0x80) return detail::kQuietNan;
  const float value = detail::E4M3FNUZ::widen(code & 0x7fu);
  return (code & 0x80u) != 0 ? -value : value;
}
// Negative zero, and what rounds to it, becomes zero.
constexpr uint8_t f32_to_e4m3fnuz(float value) {
  if (value != value) return 0x80;
  const uint32_t magnitude =
      detail::at_most(detail::E4M3FNUZ::narrow(detail::magnitude_of(value)), 0x7f);
  return static_cast<uint8_t>(magnitude != 0 && detail::is_negative(value) ? 0x80 | magnitude
                                                                           : magnitude);
}

// For a device that has e4m3fnuz where a weight has e4m3fn: the code of half the number, so that the weight's
// scale must be doubled. It is the same byte, except that -0 becomes 0. Of the two NaNs there is no half, and
// their bytes would be read as numbers: nullopt.
constexpr std::optional<uint8_t> e4m3fn_code_as_fnuz(uint8_t code) {
  if ((code & 0x7fu) == 0x7f) return std::nullopt;
  return code == 0x80 ? uint8_t{0} : code;
}

constexpr float e5m2_to_f32(uint8_t code) {
  return f16_to_f32(static_cast<uint16_t>(code << 8));  // the upper half of an f16
}
constexpr uint8_t f32_to_e5m2(float value) {
  const uint32_t sign = detail::is_negative(value) ? 0x80 : 0;
  if (value != value) return static_cast<uint8_t>(sign | 0x7e);
  const float positive = detail::magnitude_of(value);
  if (positive == std::numeric_limits<float>::infinity()) return static_cast<uint8_t>(sign | 0x7c);
  return static_cast<uint8_t>(sign | detail::at_most(detail::E5M2::narrow(positive), 0x7b));
}

// An exponent alone, as scales of blocks have it: 2^(code - 127), 0xff is NaN. There is no zero.
constexpr float e8m0_to_f32(uint8_t code) {
  if (code == 0xff) return detail::kQuietNan;
  if (code == 0) return 0x1p-127f;  // subnormal in f32
  return detail::bits_as<float>(static_cast<uint32_t>(code) << 23);
}

// `code` is a nibble: 0, 0.5, 1, 1.5, 2, 3, 4, 6, and the same with bit 3 for the sign.
constexpr float e2m1_to_f32(uint8_t code) {
  const float value = detail::E2M1::widen(code & 7u);
  return (code & 8u) != 0 ? -value : value;
}
// The format has no NaN: `value` must not be one.
constexpr uint8_t f32_to_e2m1(float value) {
  const uint32_t magnitude = detail::E2M1::narrow(detail::magnitude_of(value));
  return static_cast<uint8_t>((detail::is_negative(value) ? 8 : 0) | detail::at_most(magnitude, 7));
}

}  // namespace moert
