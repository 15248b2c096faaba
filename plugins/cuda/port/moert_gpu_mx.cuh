// The block-scaled product of sm_120a. The contract is in plugins/gpu/kernels/mx_nv.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../gpu/port.cuh"

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM120_ALL)
#error "mma of kind mxf8f6f4 is for sm_120a"
#endif

namespace moert::gpu {

MOERT_DEVICE void mx_m16n8k32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                              uint32_t scale_a, uint32_t scale_b) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X"
      ".f32.e2m1.e4m3.f32.ue8m0 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, "
      "%10, {0, 0}, %11, {0, 0};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(scale_a),
        "r"(scale_b));
}

}  // namespace moert::gpu
