// Which weight formats cpu.simd reads, and how each of them lies in its panels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "kernels.hpp"

namespace moert::cpu::simd {

struct WeightScheme {
  PanelFormat format;
  uint32_t dtype =
      0;  // of the weights as they are stored; 0 where their quant method decodes them to f32
  // Of bytes: rows and columns of a block that has one scale, 0 for all of them.
  int64_t block_rows = 0, block_cols = 0;
  uint32_t scale_dtype = 0;
};

// By the name of a scheme as docs/numerics.md has it. bf16, f16, f32, mxfp4.g32.e8m0, int8 and most of fp8_e4m3fn stay
// what they are; for anything else the quant method's f32 is kept, as the oracle does. Blocks of fp8 must have 1 row or
// a multiple of 32, so that half a panel has one scale or each column its own, and an even number of columns,
// kCodeChunk at most. mxfp4 is kept where `whole_groups`: H and I are multiples of 32.
WeightScheme scheme_of(std::string_view name, bool whole_groups);

// How rows become codes, by the word of docs/numerics.md, "Activations", and the weights that read them; nullopt for a
// way that is not known here.
struct RowScheme {
  ScaleRule rule = ScaleRule::token;
  int64_t group = 0;  // numbers that share a scale, 0 for the whole row
};
std::optional<RowScheme> row_scheme_of(std::string_view word, Storage weights);

// Cuts the panels of bytes such that one group has one scale of a row. False where that cannot be.
bool fit_rows(const RowScheme& rows, WeightScheme* weights);

}  // namespace moert::cpu::simd
