// The router's kernels, as host code sees them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../dense/records.hpp"
#include "../faults.hpp"
#include "rule.hpp"

namespace moert::gpu {

struct LogitsArgs {
  FloatRows rows;
  RowNorm norm;
  DenseMatrix gate;              // [E, H]
  const double* bias = nullptr;  // [E], or NULL
  Strided<float> logits;         // [T, E]
};

struct RouteArgs {
  Rule rule;
  int64_t tokens = 0;
  Strided<const float> logits;       // [T, E]
  Strided<int32_t> ids;              // [T, k]
  Strided<float> weights;            // [T, k]
  Strided<float> margins;            // rows of one number; no data: none
  Strided<const int32_t> forced;     // [T, k]; no data: none
  Strided<const int64_t> token_ids;  // rows of one number; only of hash
  const int32_t* table = nullptr;    // [vocabulary, k], of hash
  int64_t vocabulary = 0;
  const float* bias = nullptr;           // [E], of a rule that is biased
  const double* expert_scale = nullptr;  // [E], or NULL
  const double* log_p = nullptr;         // [E], of simulated
  Fault* fault = nullptr;
};

// Shared memory that a warp needs for a token.
constexpr int64_t route_state_bytes(const Rule& rule) {
  const int64_t experts = rule.num_experts, slots = rule.top_k, groups = rule.num_groups;
  const int64_t bytes = (2 * experts + groups + 2 * slots) * 8 + slots * 4;
  return (bytes + 15) / 16 * 16;
}

// Enqueue; `warp` is the device's, `shared_bytes` the most that a block may have. There may be no rows.
void launch_logits(int warp, void* stream, const LogitsArgs& args);
void launch_route(int warp, uint32_t shared_bytes, void* stream, const RouteArgs& args);

}  // namespace moert::gpu
