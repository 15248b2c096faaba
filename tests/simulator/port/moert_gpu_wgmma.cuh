// What plugins/gpu/kernels/gemm_wgmma.cuh asks of a backend, on the simulator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../../plugins/gpu/port.cuh"
#include "../wgmma.hpp"

namespace moert::gpu {

inline uint64_t shared_matrix(const void* pointer, uint32_t k_step, uint32_t col_step) {
  const auto offset = static_cast<uint64_t>(static_cast<const unsigned char*>(pointer) - shared());
  return (offset & 0x3ffff) >> 4 | uint64_t{k_step >> 4} << 16 | uint64_t{col_step >> 4} << 32;
}

template <int kTiles>
inline void wgmma_m64k16_bf16(float (&d)[kTiles][4], const uint32_t (&a)[4], uint64_t b,
                              Site at = Site::here()) {
  static_assert(kTiles == 8 || kTiles == 16);
  sim::wgmma(&d[0][0], kTiles, a, b, at);
}
inline void wgmma_begin() {}
inline void wgmma_commit(Site at = Site::here()) { sim::wgmma_commit(at); }
template <int N>
inline void wgmma_wait(Site at = Site::here()) {
  static_assert(N >= 0);
  sim::wgmma_wait(N, at);
}
template <int N>
inline void wgmma_give(uint32_t (& /*a*/)[N]) {}
template <int kTiles>
inline void wgmma_take(float (& /*d*/)[kTiles][4]) {}
inline void shared_written() {}

}  // namespace moert::gpu
