// The products of 16 x 16 x 16 on AMD: MFMA on CDNA 2 and later, WMMA on RDNA 3 and later, shuffles elsewhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace moert::gpu {

namespace detail {

using Shorts4 = short __attribute__((ext_vector_type(4)));
using Shorts8 = short __attribute__((ext_vector_type(8)));
using Shorts16 = short __attribute__((ext_vector_type(16)));
using Floats4 = float __attribute__((ext_vector_type(4)));
using Floats8 = float __attribute__((ext_vector_type(8)));

// The two bf16 of a word: the lower half is the first.
MOERT_DEVICE float first_f32(uint32_t pair) { return __builtin_bit_cast(float, pair << 16); }
MOERT_DEVICE float second_f32(uint32_t pair) {
  return __builtin_bit_cast(float, pair & 0xffff0000u);
}

// d += the two products of pairs, in order.
MOERT_DEVICE float add_pair(uint32_t a, uint32_t b, float d) {
  d = __builtin_fmaf(first_f32(a), first_f32(b), d);
  return __builtin_fmaf(second_f32(a), second_f32(b), d);
}

// Without the instruction: lanes ask each other, in rising order of k. Called, since kernels multiply in many places.
MOERT_CALLED Floats4 mfma_by_shuffles(Floats4 d, uint32_t a0, uint32_t a1, uint32_t b0,
                                      uint32_t b1) {
  const int lane = lane_id<64>();
  MOERT_UNROLL
  for (int q = 0; q < 4; ++q) {
    const int column = lane % 16 + 16 * q;
    const uint32_t left = from_lane(b0, column), right = from_lane(b1, column);
    MOERT_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 16 * 4 + i + 16 * q;
      d[i] = add_pair(from_lane(a0, row), left, d[i]);
      d[i] = add_pair(from_lane(a1, row), right, d[i]);
    }
  }
  return d;
}

MOERT_CALLED Floats8 wmma_by_shuffles(Floats8 d, Vector16 a, Vector16 b) {
  const int lane = lane_id<32>();
  MOERT_UNROLL
  for (int q = 0; q < 2; ++q) {
    MOERT_UNROLL
    for (int w = 0; w < 4; ++w) {
      const uint32_t column = from_lane(b[w], lane % 16 + 16 * q);
      MOERT_UNROLL
      for (int i = 0; i < 8; ++i)
        d[i] = add_pair(from_lane(a[w], lane / 16 * 8 + i + 16 * q), column, d[i]);
    }
  }
  return d;
}

}  // namespace detail

// D += A B. Lane l has A[l % 16][l / 16 * 4 ...], B[l / 16 * 4 ...][l % 16] and D[l / 16 * 4 ...][l % 16].
MOERT_DEVICE void mfma_16x16x16_bf16(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b0,
                                     uint32_t b1) {
  expect_width<64>();
#if defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || \
    defined(__gfx950__)
  const uint32_t a[2] = {a0, a1}, b[2] = {b0, b1};
  const detail::Floats4 sum = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(
      __builtin_bit_cast(detail::Shorts4, a), __builtin_bit_cast(detail::Shorts4, b),
      detail::Floats4{d[0], d[1], d[2], d[3]}, 0, 0, 0);
#else
  const detail::Floats4 sum = detail::mfma_by_shuffles({d[0], d[1], d[2], d[3]}, a0, a1, b0, b1);
#endif
  MOERT_UNROLL
  for (int i = 0; i < 4; ++i) d[i] = sum[i];
}

// Row of D that a lane's number i belongs to. RDNA 3 deals rows out to the two halves of a warp in turn.
MOERT_BOTH constexpr int rdna_row(int lane, int i) {
#if defined(__GFX11__)
  return i * 2 + lane / 16;
#else
  return lane / 16 * 8 + i;
#endif
}

#if defined(__GFX11__)
namespace detail {
// What both halves of a warp must hold alike: a lane's own numbers and those of its twin in the other half.
MOERT_DEVICE Shorts16 both_halves(const uint32_t (&own)[4]) {
  uint32_t all[8];
  const bool upper = lane_id<32>() >= 16;
  MOERT_UNROLL
  for (int i = 0; i < 4; ++i) {
    // Selects lane i of the other half for lane i, for each of 16.
    const uint32_t twin =
        __builtin_amdgcn_permlanex16(0, own[i], 0x76543210u, 0xfedcba98u, false, false);
    all[i] = upper ? twin : own[i];
    all[i + 4] = upper ? own[i] : twin;
  }
  return __builtin_bit_cast(Shorts16, all);
}
}  // namespace detail
#endif

// D += A B. Lane l has A[l % 16][l / 16 * 8 ...], B[l / 16 * 8 ...][l % 16], and D[rdna_row(l, i)][l % 16].
MOERT_DEVICE void wmma_16x16x16_bf16(float (&d)[8], const uint32_t (&a)[4],
                                     const uint32_t (&b)[4]) {
  expect_width<32>();
  detail::Floats8 sum;
  MOERT_UNROLL
  for (int i = 0; i < 8; ++i) sum[i] = d[i];
#if defined(__GFX11__)
  sum = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(detail::both_halves(a), detail::both_halves(b),
                                                    sum);
#elif defined(__GFX12__)
  sum = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(
      __builtin_bit_cast(detail::Shorts8, a), __builtin_bit_cast(detail::Shorts8, b), sum);
#else
  sum = detail::wmma_by_shuffles(sum, __builtin_bit_cast(detail::Vector16, a),
                                 __builtin_bit_cast(detail::Vector16, b));
#endif
  MOERT_UNROLL
  for (int i = 0; i < 8; ++i) d[i] = sum[i];
}

// NVIDIA's. No kernel of this backend is made for its layout.
MOERT_DEVICE void mma_m16n8k16_bf16(float (&)[4], uint32_t, uint32_t, uint32_t, uint32_t, uint32_t,
                                    uint32_t) {
  __builtin_trap();
}

}  // namespace moert::gpu
