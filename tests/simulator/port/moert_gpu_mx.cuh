// What plugins/gpu/kernels/mx_nv.cuh and mx_cdna.cuh ask of a backend, on the simulator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../../plugins/gpu/port.cuh"
#include "../mx.hpp"

namespace moert::gpu {

inline void mx_m16n8k32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                        uint32_t scale_a, uint32_t scale_b, Site at = Site::here()) {
  sim::mx_m16n8k32(d, a, b, scale_a, scale_b, at);
}
inline void mx_16x16x128(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[8],
                         uint32_t scale_a, uint32_t scale_b, Site at = Site::here()) {
  sim::mx_16x16x128(d, a, b, scale_a, scale_b, at);
}

}  // namespace moert::gpu
