// The kernels for AMX with BF16: rows times a panel of bf16 by tiles, all else as AVX-512 with BF16.
// SPDX-License-Identifier: Apache-2.0
#include "amx_tiles.hpp"
#include "row_codes.hpp"
#include "steps.hpp"
#include "tile_bf16_bytes.hpp"
#include "tile_bf16_mxfp4.hpp"

namespace moert::cpu::simd {

constexpr Kernels kAmxBf16Kernels = kernels_of<Vec>(
    &multiply_tiles<AmxTiles>, &multiply_code_pairs, &multiply_byte_pairs<Storage::fp8>,
    &multiply_byte_pairs<Storage::int8>, &code_rows);

}  // namespace moert::cpu::simd
