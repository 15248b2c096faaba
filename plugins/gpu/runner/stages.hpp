// What a runner does around its parts, as host code sees it: launches, and the records that they take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../dense/records.hpp"

namespace moert::gpu {

// Where logical experts are held. Copies of an expert stand at the front of its row, -1 behind them.
struct ExpertCopies {
  const int32_t* ids;  // [experts, width], local
  int64_t width;
};
struct ExpertMapView {
  const ExpertCopies* copies = nullptr;  // on the device, always there: recorded graphs look it up
  int32_t experts = 0;                   // real ones
  int32_t ids = 0;                       // and zero experts, which come after them
};

// What the router is told of each row. Padded rows have stale numbers, which must not look like wrong ones: they become
// -1, which asks for no expert and is no token.
struct RouterRowsArgs {
  int64_t tokens = 0;
  int32_t top_k = 0;
  Strided<const uint8_t> valid;      // rows of one number
  Strided<const int32_t> forced;     // no data: none, and then nothing is written
  int32_t* forced_to = nullptr;      // [tokens, top_k], dense
  Strided<const int64_t> token_ids;  // the same, rows of one number
  int64_t* token_ids_to = nullptr;   // [tokens]
};

struct SlotsArgs {
  int64_t tokens = 0;
  int32_t top_k = 0;
  Strided<int32_t> ids;          // logical; become -1 in padded rows
  Strided<float> weights;        // become 0 in padded rows
  Strided<const uint8_t> valid;  // rows of one number; no data: none is padded
  ExpertMapView map;
  uint64_t* counts = nullptr;    // [map.ids], added to
  int32_t* local_ids = nullptr;  // [tokens, top_k], dense
  double zero_scale = 1;
  double* zero_weights =
      nullptr;  // [tokens]: zero_scale x the weights of zero experts; NULL: there are none
};

// What is added to a row behind the experts, in the order of docs/numerics.md.
struct OutputArgs {
  FloatRows out;
  double scale = 1;
  const double* bias = nullptr;   // [H], or NULL
  const float* shared = nullptr;  // [tokens, H], dense, or NULL
  double shared_scale = 1;
  const double* zero_weights = nullptr;  // [tokens], or NULL
  FloatRows hidden;                      // the layer's own rows, which zero experts give
  Strided<const uint8_t> valid;          // padded rows become 0
};

// All of them enqueue; there may be no rows.
void launch_router_rows(void* stream, const RouterRowsArgs& args);
void launch_slots(void* stream, const SlotsArgs& args);
// to[t, c] = rows[t, c] as the norm reads it.
void launch_norm_rows(void* stream, const FloatRows& rows, const RowNorm& norm,
                      const FloatRows& to);
// to[t] = matrix (f32) x rows[t] in f64, rounded to the type of `to`. Rows of a type up to f32.
void launch_project(int warp, void* stream, const FloatRows& rows, const DenseMatrix& matrix,
                    const FloatRows& to);
// The same of normed rows, and all that follows behind the experts.
void launch_project_and_combine(int warp, void* stream, const FloatRows& rows, const RowNorm& norm,
                                const DenseMatrix& matrix, const OutputArgs& args);
void launch_combine(void* stream, const FloatRows& rows, const RowNorm& norm,
                    const OutputArgs& args);

}  // namespace moert::gpu
