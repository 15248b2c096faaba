// The block-scaled product of gfx950. The contract is in plugins/gpu/kernels/mx_cdna.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../gpu/port.cuh"

namespace moert::gpu {

MOERT_DEVICE void mx_16x16x128([[maybe_unused]] float (&d)[4],
                               [[maybe_unused]] const uint32_t (&a)[4],
                               [[maybe_unused]] const uint32_t (&b)[8],
                               [[maybe_unused]] uint32_t scale_a,
                               [[maybe_unused]] uint32_t scale_b) {
  expect_width<64>();
#if defined(__gfx950__)
  using Ints8 = int __attribute__((ext_vector_type(8)));
  constexpr int kE4m3 = 0, kE2m1 = 4;
  const uint32_t rows[8] = {a[0], a[1], a[2], a[3], 0, 0, 0, 0};
  const detail::Floats4 sum = __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(
      __builtin_bit_cast(Ints8, rows), __builtin_bit_cast(Ints8, b),
      detail::Floats4{d[0], d[1], d[2], d[3]}, kE2m1, kE4m3, 0, static_cast<int>(scale_a), 0,
      static_cast<int>(scale_b));
  MOERT_UNROLL
  for (int i = 0; i < 4; ++i) d[i] = sum[i];
#elif defined(__HIP_DEVICE_COMPILE__)
#error "v_mfma_scale_f32_16x16x128_f8f6f4 is for gfx950"
#endif
}

}  // namespace moert::gpu
