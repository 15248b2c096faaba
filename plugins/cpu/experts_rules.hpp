// What every implementation of moert.routed_experts/1 here refuses, and how it checks its arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/routed_experts.h>

#include <string>

#include "matrix.hpp"
#include "mlp_shape.hpp"

namespace moert::cpu {

MlpShape shape_of(const moert_moe_problem_t& problem);

// Why nobody here computes this problem; empty if the rest may be looked at.
std::string experts_refusal(const moert_moe_problem_t& problem);

// The tensors of one forward, after every check.
struct ExpertsRows {
  Matrix hidden, ids, weights, out;
  int64_t tokens() const { return hidden.rows(); }
};

// What a forward is checked against.
struct ExpertsLimits {
  int64_t hidden, experts, top_k, max_tokens;
  uint32_t activation_dtype, output_dtype;
  explicit ExpertsLimits(const moert_moe_problem_t& problem);
};

// Throws for the first thing that is wrong, before anything is written. The workspace is the caller's to check.
ExpertsRows expect_rows(const moert_experts_args_t& args, const ExpertsLimits& limits);

// Throws unless the bundle of `expert` can be moved.
void expect_bundle(int64_t expert, int64_t experts, const void* bundle, uint64_t bytes,
                   uint64_t expected);

}  // namespace moert::cpu
