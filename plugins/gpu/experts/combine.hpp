// The sum of a token's slots.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runtime.hpp"
#include "strided.hpp"

namespace moert::gpu {

// out[t] = sum of weights[t, j] * rows[places[t * top_k + j]] over j in order, f32, one rounding at the end. Slots
// whose place is -1 are left out, whatever their weight.
struct CombineArgs {
  const float* rows = nullptr;
  int64_t stride = 0;               // a multiple of 4
  const int32_t* places = nullptr;  // NULL: slot t * top_k + j is row t * top_k + j
  StridedSlots<float> weights;      // data NULL: all are 1
  int64_t tokens = 0, cols = 0;
  int32_t top_k = 1;
  StridedRows out;
};

// Enqueues one launch.
void launch_combine(const CombineArgs& args, Stream stream);

// factors[t] = 1 / (1 + exp(-gate . x[t])), in f64, rounded once.
struct GateArgs {
  StridedRows rows;
  const double* gate = nullptr;  // [cols]
  int64_t tokens = 0, cols = 0;
  float* factors = nullptr;  // [tokens]
};
void launch_sigmoid_gate(const GateArgs& args, int32_t warp, Stream stream);

}  // namespace moert::gpu
