// From the words of a packed weight to the fragments of a matrix product.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "../experts/formats.hpp"
#include "../tile/layouts.cuh"

namespace moert::gpu {

struct CodecShape {
  int bits;
  int unit_chunks;  // chunks that a lane has in whole words of 16 bytes
  int words;        // of a lane in a unit
};

MOERT_BOTH constexpr int bits_of(Codec codec) {
  return codec == Codec::f32 ? 32 : codec == Codec::bf16 ? 16 : codec == Codec::fp8 ? 8 : 4;
}

template <class L>
MOERT_BOTH constexpr CodecShape codec_shape(Codec codec) {
  const int bits = bits_of(codec);
  const int bytes = L::kA * bits / 8;
  const int chunks = bytes >= 16 ? 1 : 16 / bytes;
  return {bits, chunks, bytes * chunks / 16};
}

MOERT_DEVICE float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
MOERT_DEVICE uint32_t bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Two bf16 from numbers that are exact in it.
MOERT_DEVICE uint32_t exact_pair(float low, float high) {
  return bits_of_float(low) >> 16 | (bits_of_float(high) & 0xffff0000u);
}

// A power of two by its e8m0 code; 0xff is NaN.
MOERT_DEVICE float power_of_two(uint32_t code) {
  return float_of_bits(code == 0 ? 0x00400000u : code == 0xffu ? 0x7fc00000u : code << 23);
}

// Two codes of e4m3fn in the lower bytes of both halves become two bf16. A code's bits stand in a number whose exponent
// is off by 120; that includes those below the least normal one.
MOERT_DEVICE uint32_t pair_of_e4m3(uint32_t codes) {
  const uint32_t low = (codes & 0x80u) << 24 | (codes & 0x7fu) << 20;
  const uint32_t high = (codes & 0x800000u) << 8 | (codes & 0x7f0000u) << 4;
  constexpr float kBias = 0x1p120f;
  const uint32_t pair = exact_pair(float_of_bits(low) * kBias, float_of_bits(high) * kBias);
  const uint32_t low_nan = (codes & 0x7fu) == 0x7fu ? 0x7fc0u : 0u;
  const uint32_t high_nan = (codes & 0x7f0000u) == 0x7f0000u ? 0x7fc00000u : 0u;
  return pair | low_nan | high_nan;
}

// Two codes of e2m1 in the lowest bits of both halves become two bf16, by an exponent that is off by 126.
MOERT_DEVICE uint32_t pair_of_e2m1(uint32_t codes) {
  const uint32_t low = (codes & 0x8u) << 28 | (codes & 0x7u) << 22;
  const uint32_t high = (codes & 0x80000u) << 12 | (codes & 0x70000u) << 6;
  constexpr float kBias = 0x1p126f;
  return exact_pair(float_of_bits(low) * kBias, float_of_bits(high) * kBias);
}

// What a lane has of A, and of B, in one chunk.
template <class L, Codec kCodec>
struct Fragments {
  static constexpr CodecShape kShape = codec_shape<L>(kCodec);
  using A = uint32_t[L::kA / 2];
  using B = uint32_t[L::kB / 2];
  static constexpr Element kElement = Element::bf16;
  static constexpr int kElementBytes = 2;
  static constexpr bool kScaled = kCodec != Codec::bf16;

  // `words` are those of a unit, `chunk` counts in it.
  MOERT_DEVICE static void decode(const Word16 (&words)[kShape.words], int chunk, A& a) {
    constexpr int kParts = L::kA * kShape.bits / 32;  // 32-bit parts of a chunk
    MOERT_UNROLL
    for (int p = 0; p < kParts; ++p) {
      const int at = chunk * kParts + p;
      const uint32_t part = words[at / 4].part[at % 4];
      if constexpr (kCodec == Codec::bf16) {
        a[p] = part;
      } else if constexpr (kCodec == Codec::fp8) {
        a[2 * p] = pair_of_e4m3((part & 0xffu) | (part & 0xff00u) << 8);
        a[2 * p + 1] = pair_of_e4m3((part >> 16 & 0xffu) | (part >> 8 & 0xff0000u));
      } else {
        MOERT_UNROLL
        for (int i = 0; i < 4; ++i) {
          const uint32_t two = part >> 8 * i;
          a[4 * p + i] = pair_of_e2m1((two & 0xfu) | (two & 0xf0u) << 12);
        }
      }
    }
  }
};

template <class L>
struct Fragments<L, Codec::f32> {
  static constexpr CodecShape kShape = codec_shape<L>(Codec::f32);
  using A = float[L::kA];
  using B = float[L::kB];
  static constexpr Element kElement = Element::f32;
  static constexpr int kElementBytes = 4;
  static constexpr bool kScaled = false;

  MOERT_DEVICE static void decode(const Word16 (&words)[kShape.words], int /*chunk*/, A& a) {
    MOERT_UNROLL
    for (int i = 0; i < L::kA; ++i) a[i] = float_of_bits(words[i / 4].part[i % 4]);
  }
};

// Where the powers of a chunk's 16 rows stand, so that those of a lane's sums are neighbours.
template <class L>
struct PowerPlace {
  MOERT_BOTH static constexpr int of(int row) { return row; }
};
template <>
struct PowerPlace<LayoutNv> {
  MOERT_BOTH static constexpr int of(int row) { return row % 8 * 2 + row / 8; }
};

}  // namespace moert::gpu
