// What a routing record says, read once: words become enums, texts become numbers.
// SPDX-License-Identifier: Apache-2.0
#include "routing_rule.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace moert::cpu {
namespace {

constexpr uint32_t kKnownFlags =
    MOERT_ROUTING_RENORMALIZE | MOERT_ROUTING_SELECTION_BIAS | MOERT_ROUTING_GROUPED |
    MOERT_ROUTING_GATE_BIAS | MOERT_ROUTING_NEEDS_HIDDEN | MOERT_ROUTING_NEEDS_TOKEN_IDS |
    MOERT_ROUTING_EXPERT_SCALE | MOERT_ROUTING_INPUT_NORM | MOERT_ROUTING_BIAS_ON_LOGITS;

struct FlagName {
  uint32_t flag;
  const char* name;
};
constexpr FlagName kFlagNames[] = {{MOERT_ROUTING_RENORMALIZE, "RENORMALIZE"},
                                   {MOERT_ROUTING_SELECTION_BIAS, "SELECTION_BIAS"},
                                   {MOERT_ROUTING_GROUPED, "GROUPED"},
                                   {MOERT_ROUTING_NEEDS_TOKEN_IDS, "NEEDS_TOKEN_IDS"}};

// Flags that a method has no use for, and those that it cannot do without; in the order of Method.
struct MethodFlags {
  uint32_t refused, needed;
};
constexpr uint32_t kChoice = MOERT_ROUTING_SELECTION_BIAS | MOERT_ROUTING_GROUPED;
constexpr MethodFlags kMethodFlags[] = {
    {MOERT_ROUTING_NEEDS_TOKEN_IDS, 0},
    {kChoice, MOERT_ROUTING_NEEDS_TOKEN_IDS},
    {kChoice | MOERT_ROUTING_RENORMALIZE | MOERT_ROUTING_NEEDS_TOKEN_IDS, 0},
    {MOERT_ROUTING_NEEDS_TOKEN_IDS, MOERT_ROUTING_GROUPED},
    {kChoice | MOERT_ROUTING_NEEDS_TOKEN_IDS, 0}};

std::string refuse_flags(const moert_routing_t& r, Method method) {
  if ((r.flags & ~kKnownFlags) != 0)
    return "routing flag bits " + std::to_string(r.flags & ~kKnownFlags) + " are not known";
  if ((r.flags & MOERT_ROUTING_NEEDS_HIDDEN) != 0)
    return "a rule that reads hidden rows; only ones that read logits or token ids";
  if ((r.flags & MOERT_ROUTING_BIAS_ON_LOGITS) != 0 &&
      (r.flags & MOERT_ROUTING_SELECTION_BIAS) == 0)
    return "the flag BIAS_ON_LOGITS without SELECTION_BIAS";
  const MethodFlags& flags = kMethodFlags[static_cast<int>(method)];
  for (const auto& [flag, name] : kFlagNames) {
    if ((r.flags & flags.refused & flag) != 0)
      return "method " + quoted(r.method) + " with the flag " + name;
    if ((~r.flags & flags.needed & flag) != 0)
      return "method " + quoted(r.method) + " without the flag " + name;
  }
  return {};
}

std::string refuse_top_groups(const moert_routing_t& r) {
  const std::string groups = "num_groups " + std::to_string(r.num_groups);
  const std::string top = "top_groups " + std::to_string(r.top_groups);
  if (r.top_groups < 1 || r.top_groups > r.num_groups)
    return top + " is not in [1, " + groups + "]";
  if (r.top_groups * (r.num_experts / r.num_groups) < r.top_k)
    return top + " leaves fewer experts than top_k " + std::to_string(r.top_k);
  if (position(r.group_score, "max, top2_sum") < 0)
    return "group_score " + quoted(r.group_score) + ", only 'max' and 'top2_sum'";
  return {};
}

std::string refuse_equal_shares(const moert_routing_t& r) {
  const std::string groups = "num_groups " + std::to_string(r.num_groups);
  if (r.top_k % r.num_groups != 0)
    return groups + " does not divide top_k " + std::to_string(r.top_k);
  if (r.top_groups != r.num_groups)
    return "top_groups " + std::to_string(r.top_groups) + " is not " + groups +
           ": group_topk keeps all of them";
  if (r.group_score != nullptr)
    return "group_score " + quoted(r.group_score) + ": group_topk does not compare groups";
  return {};
}

std::string refuse_groups(const moert_routing_t& r, Method method) {
  const std::string groups = "num_groups " + std::to_string(r.num_groups);
  if ((r.flags & MOERT_ROUTING_GROUPED) == 0)
    return r.num_groups > 1 ? groups + " without the flag GROUPED" : std::string();
  if (r.num_groups < 1 || r.num_experts % r.num_groups != 0)
    return groups + " does not divide num_experts " + std::to_string(r.num_experts);
  return method == Method::group_topk ? refuse_equal_shares(r) : refuse_top_groups(r);
}

std::string refuse_numbers(const moert_routing_t& r, Method method) {
  if (r.num_experts < 1 || r.num_experts > INT32_MAX)
    return "num_experts " + std::to_string(r.num_experts) + " is not in [1, 2^31)";
  if (r.top_k < 1 || r.top_k > r.num_experts)
    return "top_k " + std::to_string(r.top_k) + " is not in [1, num_experts " +
           std::to_string(r.num_experts) + "]";
  if (method == Method::sparsemixer && r.top_k != 2)
    return "top_k " + std::to_string(r.top_k) + ": sparsemixer chooses 2";
  if (!std::isfinite(r.routed_scale) || r.routed_scale == 0)
    return "routed_scale " + std::to_string(r.routed_scale) + " is not a finite number but 0";
  if (!(r.renormalize_eps >= 0) || !std::isfinite(r.renormalize_eps))
    return "renormalize_eps " + std::to_string(r.renormalize_eps) + " is not a number >= 0";
  return refuse_groups(r, method);
}

}  // namespace

std::string quoted(const char* text) {
  return text == nullptr ? "none" : "'" + std::string(text) + "'";
}

int position(const char* word, const char* list) {
  if (word == nullptr) return -1;
  std::string_view left(list);
  for (int index = 0; !left.empty(); ++index) {
    const std::string_view entry = left.substr(0, left.find(", "));
    if (entry == word) return index;
    left.remove_prefix(std::min(left.size(), entry.size() + 2));
  }
  return -1;
}

std::string read_rule(const moert_routing_t& r, Rule* rule) {
  const int method = position(r.method, kMethods);
  if (method < 0) return "method " + quoted(r.method) + ", only " + kMethods;
  rule->method = static_cast<Method>(method);
  const int scoring = position(r.scoring, kScorings);
  if (scoring < 0) return "scoring " + quoted(r.scoring) + ", only " + kScorings;
  rule->scoring = static_cast<Scoring>(scoring);
  if (rule->method == Method::sparsemixer && rule->scoring != Scoring::softmax)
    return "scoring " + quoted(r.scoring) + " with sparsemixer, only 'softmax'";
  if (std::string reason = refuse_flags(r, rule->method); !reason.empty()) return reason;
  if (std::string reason = refuse_numbers(r, rule->method); !reason.empty()) return reason;
  if (std::string reason = read_params(r, rule->method, &rule->params); !reason.empty())
    return reason;
  rule->layer_id = r.layer_id;
  rule->num_experts = r.num_experts;
  rule->top_k = r.top_k;
  rule->grouped = (r.flags & MOERT_ROUTING_GROUPED) != 0;
  rule->num_groups = rule->grouped ? r.num_groups : 1;
  rule->top_groups = rule->grouped ? r.top_groups : 1;
  rule->top2 = rule->grouped && position(r.group_score, "top2_sum") == 0;
  rule->bias_on_logits = (r.flags & MOERT_ROUTING_BIAS_ON_LOGITS) != 0;
  rule->renormalize = (r.flags & MOERT_ROUTING_RENORMALIZE) != 0;
  rule->scale = r.routed_scale;
  rule->eps = r.renormalize_eps;
  return {};
}

}  // namespace moert::cpu
