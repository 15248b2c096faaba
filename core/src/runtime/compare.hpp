// Holding a layer's results against golden numbers. NaN never passes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/forward_context.hpp"

namespace moert::runtime {

// The element that is farthest off, with its place.
struct Worst {
  int64_t token = -1, column = -1;
  double got = 0, want = 0;
  double error = 0;  // what the tolerance is compared with
};

struct Comparison {
  int64_t tokens = 0;
  int64_t wrong_ids = 0;        // rows whose set of ids differs
  std::string first_wrong_ids;  // "token 3: got [1, 5], want [1, 7]"
  Worst output;                 // error: norm of the row's difference / norm of the wanted row
  Worst weight;                 // error: absolute; column is the expert
  double output_tolerance = 0, weight_tolerance = 0;
  bool passed = false;
};

struct Golden {
  std::vector<int32_t> ids;    // [tokens, k]
  std::vector<float> weights;  // [tokens, k]
  std::vector<float> output;   // [tokens, H]
};

// Largest error to expect of an output row, relative to its norm: f32 1e-5. For a 16-bit type with
// unit roundoff u, the reference rounds about six intermediate results (gate, up, activation, their
// product, down, weighting) and k sums, independently: 2 u sqrt(k + 6).
double derived_output_tolerance(uint32_t dtype, int64_t top_k);
// Of a routing weight: the reference computes it in f32 from logits that it rounded to `dtype`.
double derived_weight_tolerance(uint32_t dtype);

Comparison compare_layer(const Routing& routing, const std::vector<float>& output,
                         int64_t hidden_size, const Golden& golden, double output_tolerance,
                         double weight_tolerance);

}  // namespace moert::runtime
