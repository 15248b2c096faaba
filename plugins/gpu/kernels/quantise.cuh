// The arithmetic of quantised rows: the scale of numbers that share one, and the code of a number. The same bits as
// the quant methods' own (docs/numerics.md, "Activations").
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../experts/row_rule.hpp"
#include "numbers.cuh"

namespace moert::gpu {

// What numbers are divided by, and what a code is multiplied by to become a number again: by block, then by scale.
struct CodeScale {
  float step, block, scale;
  bool zeros;  // there is no scale: zeros are left
};

MOERT_BOTH constexpr float largest_code(RowCode code) {
  switch (code) {
    case RowCode::e4m3fn: return 448.0f;
    case RowCode::e4m3fnuz: return 240.0f;
    case RowCode::e5m2: return 57344.0f;
    case RowCode::int8: return 127.0f;
    case RowCode::e2m1: break;
  }
  return 6.0f;
}

// `magnitude` rounded to a float of `fraction` bits whose least normal number is 2^exponent; it is not above the
// largest such number.
MOERT_BOTH constexpr float rounded_magnitude(float magnitude, int fraction, int exponent) {
  if (magnitude < float_of(static_cast<uint32_t>(exponent + 127) << 23)) {
    // The sum has the spacing of the subnormals.
    const float align = float_of(static_cast<uint32_t>(exponent - fraction + 23 + 127) << 23);
    return (magnitude + align) - align;
  }
  const uint32_t bits = bits_of(magnitude), cut = static_cast<uint32_t>(23 - fraction);
  const uint32_t half = (1u << (cut - 1)) - 1 + (bits >> cut & 1u);
  return float_of((bits + half) >> cut << cut);
}

// The nearest code, an even one on a tie, as the number that it is. `value` is no NaN.
MOERT_BOTH constexpr float nearest_code(RowCode code, float value) {
  const float magnitude = float_of(bits_of(value) & 0x7fffffffu), most = largest_code(code);
  const float within = magnitude < most ? magnitude : most;
  float near = 0;
  switch (code) {
    case RowCode::e4m3fn: near = rounded_magnitude(within, 3, -6); break;
    case RowCode::e4m3fnuz: near = rounded_magnitude(within, 3, -7); break;
    case RowCode::e5m2: near = rounded_magnitude(within, 2, -14); break;
    case RowCode::int8: near = (within + 0x1p23f) - 0x1p23f; break;
    case RowCode::e2m1: near = rounded_magnitude(within, 1, 0); break;
  }
  if (code == RowCode::e4m3fnuz && near == 0) return 0;  // it has one zero
  return float_of(bits_of(near) | (bits_of(value) & 0x80000000u));
}

// Of numbers whose largest finite magnitude is `amax`; `given` is the weight's input scale.
MOERT_BOTH constexpr CodeScale code_scale(const RowRule& rule, float amax, float given) {
  const float largest = largest_code(rule.code), floor = amax < 1e-4f ? 1e-4f : amax;
  float scale = 1;
  switch (rule.scale) {
    case RowScale::none: break;
    case RowScale::fixed: scale = given; break;
    case RowScale::token:
      scale = amax / largest;
      if (rule.code != RowCode::int8) {
        const float least = 1 / (largest * 512);
        scale = scale < least ? least : scale;
      }
      break;
    case RowScale::group: scale = floor / largest; break;
    case RowScale::powers:
      // Far from subnormal numbers, whose fractions would not be what these bits are.
      scale = float_of((bits_of(floor / largest) + 0x7fffffu) & 0x7f800000u);
      break;
    case RowScale::mx: {
      // 2^-127 is the least; the exponent of a subnormal amax does not matter, 8 below it is less.
      const int32_t exponent = static_cast<int32_t>(bits_of(amax) >> 23) - 8;
      if (amax != 0)
        scale = float_of(exponent <= 0 ? 0x00400000u : static_cast<uint32_t>(exponent) << 23);
      break;
    }
    case RowScale::nv: {
      const float block = nearest_code(RowCode::e4m3fn, amax / 6 / given);
      const float step = block * given;
      return {step == 0 ? 1 : step, block, given, step == 0};
    }
  }
  return scale == 0 ? CodeScale{1, 1, 1, true} : CodeScale{scale, 1, scale, false};
}

// What is not finite stays what it is.
MOERT_BOTH constexpr float code_of(const RowRule& rule, const CodeScale& by, float value) {
  if (!is_finite(value)) return value;
  return by.zeros ? 0.0f : nearest_code(rule.code, value / by.step);
}

// The number that remains of one: finite if it was, also where code x scale is not.
MOERT_BOTH constexpr float remains_of(const RowRule& rule, const CodeScale& by, float value) {
  if (!is_finite(value)) return value;
  if (by.zeros) return 0;
  constexpr float kMost = 0x1.fffffep127f;
  const float number = code_of(rule, by, value) * by.block * by.scale;
  return number > kMost ? kMost : number < -kMost ? -kMost : number;
}

}  // namespace moert::gpu
