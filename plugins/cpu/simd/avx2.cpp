// The kernels for AVX2, FMA and F16C.
// SPDX-License-Identifier: Apache-2.0
#include "steps.hpp"
#include "vec_avx2.hpp"

namespace moert::cpu::simd {

constexpr Kernels kAvx2Kernels = kernels_of<Vec>();

}  // namespace moert::cpu::simd
