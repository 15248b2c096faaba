// What a routing record says, read once: words become enums, texts become numbers.
// SPDX-License-Identifier: Apache-2.0
#include "rule.hpp"

#include <cmath>

#include "params.hpp"

namespace moert::gpu {
namespace {

constexpr uint32_t kKnownFlags =
    MOERT_ROUTING_RENORMALIZE | MOERT_ROUTING_SELECTION_BIAS | MOERT_ROUTING_GROUPED |
    MOERT_ROUTING_GATE_BIAS | MOERT_ROUTING_NEEDS_HIDDEN | MOERT_ROUTING_NEEDS_TOKEN_IDS |
    MOERT_ROUTING_EXPERT_SCALE | MOERT_ROUTING_INPUT_NORM | MOERT_ROUTING_BIAS_ON_LOGITS;

constexpr struct {
  uint32_t flag;
  const char* name;
} kFlagNames[] = {{MOERT_ROUTING_RENORMALIZE, "RENORMALIZE"},
                  {MOERT_ROUTING_SELECTION_BIAS, "SELECTION_BIAS"},
                  {MOERT_ROUTING_GROUPED, "GROUPED"},
                  {MOERT_ROUTING_NEEDS_TOKEN_IDS, "NEEDS_TOKEN_IDS"}};

// Flags that mean nothing to a method, and those that it cannot do without.
struct MethodFlags {
  uint32_t refused, needed;
};
constexpr uint32_t kChoice = MOERT_ROUTING_SELECTION_BIAS | MOERT_ROUTING_GROUPED;
constexpr uint32_t kTokens = MOERT_ROUTING_NEEDS_TOKEN_IDS;

MethodFlags flags_of(Method method) {
  switch (method) {
    case Method::hash: return {kChoice, kTokens};
    case Method::sparsemixer: return {kChoice | MOERT_ROUTING_RENORMALIZE | kTokens, 0};
    case Method::group_topk: return {kTokens, MOERT_ROUTING_GROUPED};
    case Method::simulated: return {kChoice | kTokens, 0};
    default: return {kTokens, 0};
  }
}

bool has(const moert_routing_t& r, uint32_t flag) { return (r.flags & flag) != 0; }

std::string refused_flags(const moert_routing_t& r, Method method) {
  if (has(r, ~kKnownFlags))
    return "routing flag bits " + std::to_string(r.flags & ~kKnownFlags) + " are not known";
  if (has(r, MOERT_ROUTING_NEEDS_HIDDEN))
    return "a rule that reads hidden rows, only ones that read logits or token ids";
  if (has(r, MOERT_ROUTING_BIAS_ON_LOGITS) && !has(r, MOERT_ROUTING_SELECTION_BIAS))
    return "the flag BIAS_ON_LOGITS without SELECTION_BIAS";
  const MethodFlags flags = flags_of(method);
  for (const auto& [flag, name] : kFlagNames) {
    const bool refused = (flags.refused & flag) != 0 && has(r, flag);
    const bool missing = (flags.needed & flag) != 0 && !has(r, flag);
    if (refused || missing)
      return "method " + quoted(r.method) + (refused ? " with" : " without") + " the flag " + name;
  }
  return {};
}

std::string refused_top_groups(const moert_routing_t& r) {
  const std::string top = "top_groups " + std::to_string(r.top_groups);
  if (r.top_groups < 1 || r.top_groups > r.num_groups)
    return top + " is not in [1, num_groups " + std::to_string(r.num_groups) + "]";
  if (r.num_experts / r.num_groups * r.top_groups < r.top_k)
    return top + " leaves fewer experts than top_k " + std::to_string(r.top_k);
  if (position(r.group_score, "max, top2_sum") < 0)
    return "group_score " + quoted(r.group_score) + ", only 'max' and 'top2_sum'";
  return {};
}

std::string refused_shares(const moert_routing_t& r) {
  const std::string groups = "num_groups " + std::to_string(r.num_groups);
  if (r.top_k % r.num_groups != 0)
    return groups + " does not divide top_k " + std::to_string(r.top_k);
  if (r.top_groups != r.num_groups)
    return "top_groups " + std::to_string(r.top_groups) + " is not " + groups +
           ", and group_topk keeps all of them";
  if (r.group_score != nullptr)
    return "group_score " + quoted(r.group_score) + ", and group_topk compares no groups";
  return {};
}

std::string refused_groups(const moert_routing_t& r, Method method) {
  const std::string groups = "num_groups " + std::to_string(r.num_groups);
  if (!has(r, MOERT_ROUTING_GROUPED))
    return r.num_groups > 1 ? groups + " without the flag GROUPED" : std::string();
  if (r.num_groups < 1 || r.num_experts % r.num_groups != 0)
    return groups + " does not divide num_experts " + std::to_string(r.num_experts);
  return method == Method::group_topk ? refused_shares(r) : refused_top_groups(r);
}

std::string refused_numbers(const moert_routing_t& r, Method method) {
  if (r.num_experts < 1 || r.num_experts > INT32_MAX)
    return "num_experts " + std::to_string(r.num_experts) + " is not in [1, 2^31)";
  if (r.top_k < 1 || r.top_k > r.num_experts)
    return "top_k " + std::to_string(r.top_k) + " is not in [1, num_experts " +
           std::to_string(r.num_experts) + "]";
  if (method == Method::sparsemixer && r.top_k != 2)
    return "top_k " + std::to_string(r.top_k) + ", and sparsemixer chooses 2";
  if (!std::isfinite(r.routed_scale) || r.routed_scale == 0)
    return "routed_scale " + std::to_string(r.routed_scale) + " is 0 or no finite number";
  if (!(r.renormalize_eps >= 0) || !std::isfinite(r.renormalize_eps))
    return "renormalize_eps " + std::to_string(r.renormalize_eps) + " is no number >= 0";
  return refused_groups(r, method);
}

void take_numbers(const moert_routing_t& r, Rule* rule) {
  rule->grouped = has(r, MOERT_ROUTING_GROUPED);
  rule->top2 = rule->grouped && position(r.group_score, "top2_sum") == 0;
  rule->renormalize = has(r, MOERT_ROUTING_RENORMALIZE);
  rule->biased = has(r, MOERT_ROUTING_SELECTION_BIAS);
  rule->bias_on_logits = has(r, MOERT_ROUTING_BIAS_ON_LOGITS);
  rule->num_experts = static_cast<int32_t>(r.num_experts);
  rule->top_k = static_cast<int32_t>(r.top_k);
  rule->num_groups = rule->grouped ? static_cast<int32_t>(r.num_groups) : 1;
  rule->top_groups = rule->grouped ? static_cast<int32_t>(r.top_groups) : 1;
  rule->layer_id = r.layer_id;
  rule->routed_scale = r.routed_scale;
  rule->renormalize_eps = r.renormalize_eps;
}

}  // namespace

std::string read_rule(const moert_routing_t& r, Rule* rule) {
  *rule = {};
  const int method = position(r.method, kMethods);
  if (method < 0) return "method " + quoted(r.method) + ", only " + kMethods;
  rule->method = static_cast<Method>(method);
  const int scoring = position(r.scoring, kScorings);
  if (scoring < 0) return "scoring " + quoted(r.scoring) + ", only " + kScorings;
  rule->scoring = static_cast<Scoring>(scoring);
  if (rule->method == Method::sparsemixer && rule->scoring != Scoring::softmax)
    return "scoring " + quoted(r.scoring) + " with sparsemixer, only 'softmax'";
  if (std::string reason = refused_flags(r, rule->method); !reason.empty()) return reason;
  if (std::string reason = refused_numbers(r, rule->method); !reason.empty()) return reason;
  if (std::string reason = read_params(r, rule); !reason.empty()) return reason;
  take_numbers(r, rule);
  return {};
}

}  // namespace moert::gpu
