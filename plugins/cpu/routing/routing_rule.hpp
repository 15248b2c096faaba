// What a routing record says, read once: words become enums, texts become numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/router.h>

#include <string>

namespace moert::cpu {

enum class Method { topk, hash, sparsemixer, group_topk, simulated };
enum class Scoring { softmax, softmax_topk, sigmoid, sqrtsoftplus };
enum class Distribution { uniform, normal, zipf };

// In the order of the enums.
inline constexpr char kMethods[] = "topk, hash, sparsemixer, group_topk, simulated";
inline constexpr char kScorings[] = "softmax, softmax_topk, sigmoid, sqrtsoftplus";

// moert_routing.params, with what holds where they are not given.
struct RoutingParams {
  double logit_scale = 1, logit_softcap = 0;  // softcap 0: none
  double renormalize_floor = 0;
  double input_norm_eps = 0, input_gain = 1;
  double jitter_eps = 0.01;
  uint64_t seed = 0;
  Distribution distribution = Distribution::uniform;
};

struct Rule {
  Method method = Method::topk;
  Scoring scoring = Scoring::softmax;
  int64_t layer_id = 0, num_experts = 0, top_k = 0;
  int64_t num_groups = 1, top_groups = 1;
  bool grouped = false, top2 = false, renormalize = false, bias_on_logits = false;
  double scale = 1, eps = 0;
  RoutingParams params;
};

// Why this rule cannot be followed; empty if it can, and then `rule` is complete.
std::string read_rule(const moert_routing_t& routing, Rule* rule);
// The part about params, for a method that is known. Also refuses what the method does not use: a
// number that was given and is then ignored would be a wrong answer that looks right.
std::string read_params(const moert_routing_t& routing, Method method, RoutingParams* params);

// A word of the record in quotes.
std::string quoted(const char* text);
// Position of `word` in a list like kMethods; -1 if it is not there.
int position(const char* word, const char* list);

}  // namespace moert::cpu
