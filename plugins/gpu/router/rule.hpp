// What a routing record says, read once: words become enums, texts become numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/router.h>

#include <cstdint>
#include <string>

namespace moert::gpu {

enum class Method : uint8_t { topk, hash, sparsemixer, group_topk, simulated };
enum class Scoring : uint8_t { softmax, softmax_topk, sigmoid, sqrtsoftplus };
enum class Distribution : uint8_t { uniform, normal, zipf };

// In the order of the enums.
inline constexpr char kMethods[] = "topk, hash, sparsemixer, group_topk, simulated";
inline constexpr char kScorings[] = "softmax, softmax_topk, sigmoid, sqrtsoftplus";

// A rule with nothing left to look up; kernels take it by value. Formulas: docs/numerics.md.
struct Rule {
  Method method = Method::topk;
  Scoring scoring = Scoring::softmax;
  Distribution distribution = Distribution::uniform;
  bool grouped = false, top2 = false, renormalize = false, biased = false, bias_on_logits = false;
  int32_t num_experts = 0, top_k = 0;
  int32_t num_groups = 1, top_groups = 1;
  int64_t layer_id = 0;
  uint64_t seed = 0;
  double routed_scale = 1, renormalize_eps = 0, renormalize_floor = 0;
  double logit_scale = 1, logit_softcap = 0;  // softcap 0: none
  double input_norm_eps = 0, input_gain = 1, jitter_eps = 0.01;
};

// Why this rule cannot be followed; empty if it can, and then `rule` is complete.
std::string read_rule(const moert_routing_t& routing, Rule* rule);

}  // namespace moert::gpu
