// The kernels for AVX-512 with BF16.
// SPDX-License-Identifier: Apache-2.0
#include "steps.hpp"
#include "tile_bf16_mxfp4.hpp"

namespace moert::cpu::simd {

constexpr Kernels kAvx512Bf16Kernels = kernels_of<Vec>(&multiply_pairs, &multiply_code_pairs);

}  // namespace moert::cpu::simd
