// Matrix instructions of the vendors' cards by their published register maps. They know nothing of tile/layouts.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "engine.hpp"

namespace moert::sim {

// D[M x N] += A[M x K] B[K x N], bf16 with f32 sums in rising order of k. A register holds two bf16, the lower half
// first; a map says which entry number i of a lane is.
struct Entry {
  int row, column;
};
struct InstructionMap {
  int width, m, n, k;
  int a_numbers, b_numbers, d_numbers;  // of a lane
  Entry (*a)(int lane, int i);          // {row, k}
  Entry (*b)(int lane, int i);          // {k, column}
  Entry (*d)(int lane, int i);
};
extern const InstructionMap kMma;   // PTX ISA, mma.m16n8k16 with .bf16
extern const InstructionMap kMfma;  // CDNA 2 and 3, V_MFMA_F32_16X16X16_BF16 (_1K)
extern const InstructionMap kWmma;  // RDNA 4, V_WMMA_F32_16X16X16_BF16 on 32 lanes

// Called by all lanes of a warp.
void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], Site at);
void mfma_16x16x16(float (&d)[4], const uint32_t (&a)[2], const uint32_t (&b)[2], Site at);
void wmma_16x16x16(float (&d)[8], const uint32_t (&a)[4], const uint32_t (&b)[4], Site at);

}  // namespace moert::sim
