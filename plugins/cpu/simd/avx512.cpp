// The kernels for AVX-512: F, BW, DQ and VL.
// SPDX-License-Identifier: Apache-2.0
#include "steps.hpp"
#include "vec_avx512.hpp"

namespace moert::cpu::simd {

constexpr Kernels kAvx512Kernels = kernels_of<Vec>();

}  // namespace moert::cpu::simd
