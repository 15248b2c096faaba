// How a problem's weights are kept, and which numbers meet in its matrix products.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "views.hpp"

namespace moert::gpu {

// What the codes of a packed weight are.
enum class Codec : uint8_t { bf16, f32, fp8, mxfp4 };  // fp8 is e4m3fn, mxfp4 e2m1

// Where the scales of codes are: for each panel of 16 rows, or for each row, one f32 for a block of K; or, of mxfp4
// alone, a power of two (e8m0) for each row and 32 numbers.
enum class ScaleKind : uint8_t { none, per_panel, per_row, powers };

struct WeightFormat {
  Codec codec = Codec::f32;
  ScaleKind scales = ScaleKind::none;
  // Of the weights as they arrive; 0: their quant method decodes them to f32.
  uint32_t dtype = 0;
  uint32_t scale_dtype = 0;
  // Rows and columns that share a scale, 0 for all of them.
  int64_t block_rows = 0, block_cols = 0;

  bool stored() const { return dtype != 0; }
};

// Of a scheme by its name (docs/numerics.md). bf16, fp8_e4m3fn (block, channel, tensor, MXFP8; scales of f32, bf16,
// f16 or e8m0) and mxfp4.g32.e8m0 stay what they are where rows are bf16 numbers or codes; anything else, and all of
// them where rows are f32, is decoded. Blocks need 1 row or a multiple of 16, and columns in multiples of 32.
WeightFormat weight_format(std::string_view scheme, Element rows);

}  // namespace moert::gpu
