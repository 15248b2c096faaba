// What a code of e4m3fn is worth.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace moert::cpu::simd {
namespace {

// The bf16 of an e4m3fn without its sign; all of them are exact, and 127 is NaN.
constexpr uint32_t fp8_as_bf16(uint32_t code) {
  if (code == 127) return 0x7fc0;
  uint32_t exponent = code >> 3;
  uint32_t fraction = code & 7;
  if (exponent == 0) {
    if (fraction == 0) return 0;
    for (exponent = 1; fraction < 8; --exponent) fraction *= 2;  // may wrap below 0, and comes back
    fraction &= 7;
  }
  return (exponent + 120) << 7 | fraction << 4;
}

}  // namespace
}  // namespace moert::cpu::simd
