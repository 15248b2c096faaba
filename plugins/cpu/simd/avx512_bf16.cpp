// The kernels for AVX-512 with BF16.
// SPDX-License-Identifier: Apache-2.0
#include "row_codes.hpp"
#include "steps.hpp"
#include "tile_bf16_bytes.hpp"
#include "tile_bf16_mxfp4.hpp"

namespace moert::cpu::simd {

constexpr Kernels kAvx512Bf16Kernels =
    kernels_of<Vec>(&multiply_pairs, &multiply_code_pairs, &multiply_byte_pairs<Storage::fp8>,
                    &multiply_byte_pairs<Storage::int8>, &code_rows);

}  // namespace moert::cpu::simd
