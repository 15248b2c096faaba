// SPDX-License-Identifier: Apache-2.0
#include "cpu/products.hpp"

#include <cmath>

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
  const uint16_t half = storage == Storage::bf16 ? bf16_bits(x) : f16_bits(x);
  if (storage == Storage::bf16)
    std::memcpy(at + (d / 2 * kPanel + column) * 4 + d % 2 * 2, &half, 2);
  else if (storage == Storage::f16)
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

Panel Panel::random(Storage storage, int64_t depth, uint64_t seed) {
  std::mt19937_64 random(seed);
  Panel panel(storage, depth);
  for (int64_t d = 0; d < depth; ++d)
    for (int64_t c = 0; c < kPanel; ++c) {
      if (storage != Storage::mxfp4) {
        panel.put(d, c, random_number(random));
        continue;
      }
      if (d % kGroup == 0) panel.put_scale(d / kGroup, c, static_cast<uint8_t>(120 + random() % 8));
      panel.put_code(d, c, static_cast<uint32_t>(random() % 16));
    }
  return panel;
}

}  // namespace moert::cpu::testing
