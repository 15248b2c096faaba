// Products of four warps out of shared memory (wgmma of PTX), by the published maps and descriptors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "engine.hpp"

namespace moert::sim {

// A descriptor of a matrix in shared memory, taken apart.
struct SharedMatrix {
  uint32_t start, leading, stride;  // bytes
  uint32_t base_offset, swizzle;

  static SharedMatrix of(uint64_t bits);
  // Byte of number k of column n, of bf16 without swizzle where K is the inner dimension.
  uint32_t at(uint32_t k, uint32_t n) const {
    return start + k / 8 * leading + n / 8 * stride + n % 8 * 16 + k % 8 * 2;
  }
};

// D += A B: 64 x 16 by 16 x 8 * `tiles`; a warp has its 16 rows of A and D as mma.m16n8k16 has them. Nothing is
// multiplied before a wait asks for it: then B is read, and d written, as late as the hardware may.
void wgmma(float* d, int tiles, const uint32_t (&a)[4], uint64_t b, Site at);
void wgmma_commit(Site at);
void wgmma_wait(unsigned pending, Site at);

}  // namespace moert::sim
