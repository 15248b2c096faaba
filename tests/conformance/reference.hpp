// What a layer's output must be, written down once more from the headers, in f64, with a tolerance
// derived from the numbers themselves.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/problem.h>

#include <vector>

#include "numbers.hpp"

namespace moert::conformance {

struct Act {
  const char* name = "silu";
  double alpha = 0, beta = 0, limit = 0;
};

// One gated (or not) MLP; bias vectors are empty without biases.
struct Mlp {
  int64_t h = 0, i = 0;
  bool gated = true;
  Act act;
  Values gate, up, down, gate_bias, up_bias, down_bias;
};
// With weights of MOERT_DTYPE_F4_E2M1 the bytes of a matrix are mxfp4's codes and behind them its scales; i and h are
// then multiples of 32.
Mlp make_mlp(Random& random, int64_t h, int64_t i, bool gated, bool biased, const Act& act,
             uint32_t weight_dtype);

// An MLP's row. An implementation may sum in f32 in any order and round what lies between the two
// projections to the rows' dtype, so
//   a sum of n products may be off by  c sqrt(n) 2^-24 sum |products|
//   a number in the middle by what that makes of it, plus its rounding.
// `x_error` is a relative error that the input row already has.
Expected mlp_row(const Mlp& mlp, const double* x, double x_error, uint32_t dtype);

// Adds the rounding to `dtype` to a tolerance.
void add_rounding(Expected& row, uint32_t dtype);

}  // namespace moert::conformance
