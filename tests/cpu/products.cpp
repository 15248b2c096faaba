// SPDX-License-Identifier: Apache-2.0
#include "cpu/products.hpp"

#include <algorithm>
#include <cmath>
#include <moert/sdk/small_floats.hpp>

namespace moert::cpu::testing {
namespace {

using namespace simd;

// Of a number with 8 digits in f16's range of normal numbers, or zero.
uint16_t f16_bits(float x) {
  const auto bits = __builtin_bit_cast(uint32_t, x);
  if (x == 0) return 0;
  return static_cast<uint16_t>((bits >> 16 & 0x8000u) |
                               (((bits & 0x7fffffffu) - 0x38000000u) >> 13));
}

}  // namespace

void Panel::put(int64_t d, int64_t column, float x) {
  unsigned char* at = bytes.data();
  const uint16_t half = format.storage == Storage::bf16 ? bf16_bits(x) : f16_bits(x);
  if (format.storage == Storage::bf16)
    std::memcpy(at + (d / 2 * kPanel + column) * 4 + d % 2 * 2, &half, 2);
  else if (format.storage == Storage::f16)
    std::memcpy(at + (d * kPanel + column) * 2, &half, 2);
  else
    std::memcpy(at + (d * kPanel + column) * 4, &x, 4);
  numbers[static_cast<size_t>(d * kPanel + column)] = static_cast<double>(x);
}

void Panel::put_scale(int64_t group, int64_t column, uint8_t scale) {
  bytes.data()[group * kGroupBytes + kGroupCodes + column] = scale;
}

// The layout as kernels.hpp words it.
void Panel::put_code(int64_t d, int64_t column, uint32_t code) {
  constexpr double kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  unsigned char* group = bytes.data() + d / kGroup * kGroupBytes;
  const int64_t in = d % kGroup;
  const int64_t word = (in / 8 * kPanel + column) * 2 + in % 2;
  group[word * 2 + in % 8 / 4] |= static_cast<unsigned char>(code << (in % 4 / 2 * 4));
  const double magnitude = std::ldexp(kValues[code & 7], group[kGroupCodes + column] - 127);
  numbers[static_cast<size_t>(d * kPanel + column)] = code >= 8 ? -magnitude : magnitude;
}

unsigned char* Panel::group_of(int64_t d) const {
  const int64_t group = format.group == 0 ? depth : format.group;
  return bytes.data() + d / group * (code_bytes(group) + scales_bytes(format.scales));
}

unsigned char* Panel::scales_of(int64_t d) const {
  const int64_t group = format.group == 0 ? depth : format.group;
  return group_of(d) + code_bytes(std::min(group, depth - d / group * group));
}

void Panel::put_byte_scale(int64_t d, int64_t column, int exponent) {
  const float scale = std::ldexp(1.0f, exponent);
  if (format.scales == Scales::powers)
    scales_of(d)[column] = static_cast<unsigned char>(exponent + 127);
  else if (format.scales == Scales::columns)
    std::memcpy(scales_of(d) + column * 4, &scale, 4);
  else
    std::memcpy(scales_of(d) + column / 32 * 4, &scale, 4);
}

// The layout as kernels.hpp words it.
void Panel::put_byte(int64_t d, int64_t column, uint8_t code) {
  const int64_t in = format.group == 0 ? d : d % format.group;
  const int64_t c = column % 32;
  group_of(d)[in / 2 * 128 + column / 32 * 64 + c % 16 / 4 * 16 + c / 16 * 8 + c % 4 * 2 + in % 2] =
      code;
  float scale = 0;
  if (format.scales == Scales::powers)
    scale = std::ldexp(1.0f, scales_of(d)[column] - 127);
  else
    std::memcpy(&scale,
                scales_of(d) + (format.scales == Scales::columns ? column : column / 32) * 4, 4);
  const float number = format.storage == Storage::fp8
                           ? e4m3fn_to_f32(code)
                           : static_cast<float>(static_cast<int8_t>(code));
  numbers[static_cast<size_t>(d * kPanel + column)] = static_cast<double>(number * scale);
}

Panel Panel::random(const PanelFormat& format, int64_t depth, uint64_t seed) {
  std::mt19937_64 random(seed);
  Panel panel(format, depth);
  for (int64_t d = 0; d < depth; ++d)
    for (int64_t c = 0; c < kPanel; ++c) {
      if (is_bytes(format.storage)) {
        if (d == 0 || (format.group != 0 && d % format.group == 0))
          panel.put_byte_scale(d, c, static_cast<int>(random() % 4) - 9);
      } else if (format.storage != Storage::mxfp4) {
        panel.put(d, c, random_number(random));
      } else {
        if (d % kGroup == 0)
          panel.put_scale(d / kGroup, c, static_cast<uint8_t>(120 + random() % 8));
        panel.put_code(d, c, static_cast<uint32_t>(random() % 16));
      }
    }
  // Halves share a scale, so codes come when all scales are there.
  for (int64_t i = 0; is_bytes(format.storage) && i < depth * kPanel; ++i) {
    auto code = static_cast<uint8_t>(random());
    if (format.storage == Storage::fp8 && (code & 127) == 127) code ^= 1;
    panel.put_byte(i / kPanel, i % kPanel, code);
  }
  return panel;
}

}  // namespace moert::cpu::testing
