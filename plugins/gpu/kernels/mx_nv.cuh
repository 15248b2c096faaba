// The block-scaled product of NVIDIA's sm_120, mma.m16n8k32 of kind mxf8f6f4.
// SPDX-License-Identifier: Apache-2.0
//
// A backend gives in <moert_gpu_mx.cuh>
//   mx_m16n8k32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], uint32_t scale_a, uint32_t scale_b):
//     D += A B as PTX has it, A of e2m1 and B of e4m3, a code to a byte (e2m1 in the middle four bits); byte 0 of the
//     scales of the lower two lanes of each four for A, and of the lowest for B.
#pragma once

#include <moert_gpu_mx.cuh>

#include "../tile/layouts.cuh"

namespace moert::gpu {

// A lane's eight neighbours of a chunk take the places of K that the instruction gives it: four in either half.
struct MxNv {
  using L = LayoutNv;
  static constexpr int kChunks = 1, kB = 2;

  // Four codes of four bits, each into the middle of a byte.
  MOERT_DEVICE static uint32_t spread(uint32_t codes) {
    uint32_t wide = (codes | codes << 8) & 0x00ff00ffu;
    wide = (wide | wide << 4) & 0x0f0f0f0fu;
    return wide << 2;
  }
  // A chunk is two parts of the word: row lane / 4, and the one eight below.
  MOERT_DEVICE static void a_codes(const Word16& word, uint32_t (&a)[2][4]) {
    MOERT_UNROLL
    for (int chunk = 0; chunk < 2; ++chunk) MOERT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const uint32_t part = word.part[chunk * 2 + half];
      a[chunk][half] = spread(part & 0xffffu);
      a[chunk][2 + half] = spread(part >> 16);
    }
  }
  MOERT_DEVICE static int b_k(int lane, int /*run*/) { return L::b_k(lane, 0); }
  MOERT_DEVICE static int scale_row(int lane) { return lane / 4 + lane % 2 * 8; }
  MOERT_DEVICE static int scale_chunk(int /*lane*/) { return 0; }
  MOERT_DEVICE static void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[kB],
                                    uint32_t scale_a, uint32_t scale_b) {
    mx_m16n8k32(d, a, b, scale_a, scale_b);
  }
};

}  // namespace moert::gpu
