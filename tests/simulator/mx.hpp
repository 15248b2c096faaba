// Block-scaled products of the vendors' cards, codes and scales by their published register maps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "engine.hpp"

namespace moert::sim {

// Where a number or a scale of a product is: a lane, and a code of its registers.
struct Spot {
  int lane, index;
};

// D[16 x n] += A B with A of e2m1 and B of e4m3, k numbers of a row, scales of e8m0 for 32 of them.
struct MxMap {
  int width, n, k;
  int a_bits;   // of a code of A in a register: 4, or 8 with the code in the middle
  int b_words;  // of a lane
  Spot (*a)(int row, int k);
  Spot (*b)(int k, int column);
  int (*scale_a)(int row, int chunk);  // the lane
  int (*scale_b)(int chunk, int column);
  int (*row)(int lane, int i), (*column)(int lane, int i);  // of sum i
};
extern const MxMap kMxMma;   // PTX ISA, mma.m16n8k32 of kind mxf8f6f4, selectors 0
extern const MxMap kMxMfma;  // CDNA 4, V_MFMA_SCALE_F32_16X16X128_F8F6F4, selectors 0

// Called by all lanes of a warp.
void mx_m16n8k32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], uint32_t scale_a,
                 uint32_t scale_b, Site at);
void mx_16x16x128(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[8], uint32_t scale_a,
                  uint32_t scale_b, Site at);

}  // namespace moert::sim
