// The block-scaled product of AMD's gfx950, v_mfma_scale_f32_16x16x128_f8f6f4.
// SPDX-License-Identifier: Apache-2.0
//
// A backend gives in <moert_gpu_mx.cuh>
//   mx_16x16x128(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[8], uint32_t scale_a, uint32_t scale_b):
//     D += A B, A of e2m1 and B of e4m3. With g = lane / 16, a lane has of A row lane % 16 from k = 32g on, of B column
//     lane % 16 from 16g on and from 64 + 16g on, sixteen each; byte 0 of its scales is that of chunk g.
#pragma once

#include <moert_gpu_mx.cuh>

#include "../tile/layouts.cuh"

namespace moert::gpu {

struct MxCdna {
  using L = LayoutCdna;
  static constexpr int kChunks = 4, kB = 8;

  // A packed word has a quarter of each of four chunks; here a lane wants all of one. Four lanes of a row exchange: in
  // either round one keeps half of its parts, and gets the others from whom it gives its own.
  MOERT_DEVICE static void a_codes(const Word16& word, uint32_t (&a)[1][4]) {
    uint32_t part[4] = {word.part[0], word.part[1], word.part[2], word.part[3]};
    MOERT_UNROLL
    for (int round = 1; round <= 2; round *= 2) {
      const bool upper = (thread() % L::kWarp / 16 & round) != 0;
      MOERT_UNROLL
      for (int i = 0; i < 4; ++i) {
        if ((i & round) != 0) continue;
        const uint32_t given = upper ? part[i] : part[i + round];
        const uint32_t got = shuffle_xor<L::kWarp>(given, 16 * round);
        part[i] = upper ? got : part[i];
        part[i + round] = upper ? part[i + round] : got;
      }
    }
    MOERT_UNROLL
    for (int i = 0; i < 4; ++i) a[0][i] = part[i];
  }
  MOERT_DEVICE static int b_k(int lane, int run) {
    return run / 2 * 64 + lane / 16 * 16 + run % 2 * 8;
  }
  MOERT_DEVICE static int scale_row(int lane) { return lane % 16; }
  MOERT_DEVICE static int scale_chunk(int lane) { return lane / 16; }
  MOERT_DEVICE static void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[kB],
                                    uint32_t scale_a, uint32_t scale_b) {
    mx_16x16x128(d, a, b, scale_a, scale_b);
  }
};

}  // namespace moert::gpu
