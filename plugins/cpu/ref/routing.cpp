// The rule of routing for one token, in f64: scores, groups, choice, weights.
// SPDX-License-Identifier: Apache-2.0
#include "routing.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace moert::cpu {
namespace {

constexpr double kNever = -HUGE_VAL;
constexpr uint32_t kKnownFlags = MOERT_ROUTING_RENORMALIZE | MOERT_ROUTING_SELECTION_BIAS |
                                 MOERT_ROUTING_GROUPED | MOERT_ROUTING_GATE_BIAS |
                                 MOERT_ROUTING_NEEDS_HIDDEN | MOERT_ROUTING_NEEDS_TOKEN_IDS;

bool is(const char* text, std::string_view word) { return text != nullptr && text == word; }

std::string quoted(const char* text) {
  return text == nullptr ? "none" : "'" + std::string(text) + "'";
}

std::string refuse_groups(const moert_routing_t& r) {
  const std::string groups = "num_groups " + std::to_string(r.num_groups);
  if ((r.flags & MOERT_ROUTING_GROUPED) == 0)
    return r.num_groups > 1 ? groups + " without the flag GROUPED" : std::string();
  const std::string top = "top_groups " + std::to_string(r.top_groups);
  if (r.num_groups < 1 || r.num_experts % r.num_groups != 0)
    return groups + " does not divide num_experts " + std::to_string(r.num_experts);
  if (r.top_groups < 1 || r.top_groups > r.num_groups)
    return top + " is not in [1, " + groups + "]";
  if (r.top_groups * (r.num_experts / r.num_groups) < r.top_k)
    return top + " leaves fewer experts than top_k " + std::to_string(r.top_k);
  if (!is(r.group_score, "max") && !is(r.group_score, "top2_sum"))
    return "group_score " + quoted(r.group_score) + ", only 'max' and 'top2_sum'";
  return {};
}

// Position of the greatest key that is not yet taken; the lower one of equal keys.
template <class Taken>
int64_t best(const double* key, int64_t n, Taken&& taken) {
  int64_t found = -1;
  for (int64_t i = 0; i < n; ++i)
    if (!taken(i) && (found < 0 || key[i] > key[found])) found = i;
  return found;
}

}  // namespace

std::string Routing::refusal(const moert_routing_t& r) {
  if ((r.flags & ~kKnownFlags) != 0)
    return "routing flag bits " + std::to_string(r.flags & ~kKnownFlags) + " are not known";
  if ((r.flags & (MOERT_ROUTING_NEEDS_HIDDEN | MOERT_ROUTING_NEEDS_TOKEN_IDS)) != 0)
    return "a rule that reads hidden rows or token ids; only ones that read logits";
  if (!is(r.method, "topk")) return "method " + quoted(r.method) + ", only 'topk'";
  if (!is(r.scoring, "softmax") && !is(r.scoring, "sigmoid"))
    return "scoring " + quoted(r.scoring) + ", only 'softmax' and 'sigmoid'";
  if (r.n_params != 0) return "parameter " + quoted(r.params[0].key) + " is not known to 'topk'";
  if (r.num_experts < 1 || r.num_experts > INT32_MAX)
    return "num_experts " + std::to_string(r.num_experts) + " is not in [1, 2^31)";
  if (r.top_k < 1 || r.top_k > r.num_experts)
    return "top_k " + std::to_string(r.top_k) + " is not in [1, num_experts " +
           std::to_string(r.num_experts) + "]";
  if (!std::isfinite(r.routed_scale) || r.routed_scale == 0)
    return "routed_scale " + std::to_string(r.routed_scale) + " is not a finite number but 0";
  if (!(r.renormalize_eps >= 0) || !std::isfinite(r.renormalize_eps))
    return "renormalize_eps " + std::to_string(r.renormalize_eps) + " is not a number >= 0";
  return refuse_groups(r);
}

Routing::Routing(const moert_routing_t& r)
    : num_experts_(r.num_experts),
      top_k_(r.top_k),
      num_groups_((r.flags & MOERT_ROUTING_GROUPED) != 0 ? r.num_groups : 1),
      top_groups_((r.flags & MOERT_ROUTING_GROUPED) != 0 ? r.top_groups : 1),
      sigmoid_(is(r.scoring, "sigmoid")),
      renormalize_((r.flags & MOERT_ROUTING_RENORMALIZE) != 0),
      grouped_((r.flags & MOERT_ROUTING_GROUPED) != 0),
      top2_(is(r.group_score, "top2_sum")),
      scale_(r.routed_scale),
      eps_(r.renormalize_eps) {}

void Routing::softmax(const float* logits, double* score) const {
  double top = kNever;
  for (int64_t e = 0; e < num_experts_; ++e)
    if (static_cast<double>(logits[e]) > top) top = static_cast<double>(logits[e]);
  double sum = 0;
  for (int64_t e = 0; e < num_experts_; ++e) {
    const auto x = static_cast<double>(logits[e]);
    if (std::isnan(x) || top == kNever)
      score[e] = 0;
    else
      score[e] = x == top ? 1.0 : std::exp(x - top);
    sum += score[e];
  }
  if (sum == 0) return;
  for (int64_t e = 0; e < num_experts_; ++e) score[e] /= sum;
}

Routing::Scores Routing::compute(const float* logits, double* scratch) const {
  const Scores s = {scratch, scratch + num_experts_, scratch + 2 * num_experts_,
                    scratch + 3 * num_experts_, scratch + 3 * num_experts_ + num_groups_};
  if (!sigmoid_) softmax(logits, s.score);
  for (int64_t e = 0; e < num_experts_; ++e) {
    const auto x = static_cast<double>(logits[e]);
    const bool nan = std::isnan(x);
    if (sigmoid_) s.score[e] = nan ? 0.0 : 1.0 / (1.0 + std::exp(-x));
    const double bias = bias_.empty() ? 0.0 : static_cast<double>(bias_[static_cast<size_t>(e)]);
    s.selection[e] = nan ? kNever : s.score[e] + bias;
    // Sigmoid and softmax rise with the logit, so without a bias the logits order the experts.
    s.key[e] = nan || !bias_.empty() ? s.selection[e] : x;
  }
  return s;
}

// Both rules of a group's score look at selection scores. Only the maximum may look at the keys
// instead: their sum would not be the sum of the scores.
double Routing::group_key(const double* key, int64_t group) const {
  const int64_t size = num_experts_ / num_groups_;
  double first = kNever;
  double second = kNever;
  for (int64_t e = group * size; e < (group + 1) * size; ++e) {
    if (key[e] > first) {
      second = first;
      first = key[e];
    } else if (key[e] > second) {
      second = key[e];
    }
  }
  return top2_ && size > 1 ? first + second : first;
}

void Routing::drop_groups(const Scores& s) const {
  for (int64_t g = 0; g < num_groups_; ++g) {
    s.group_key[g] = group_key(top2_ ? s.selection : s.key, g);
    s.group_kept[g] = 0;
  }
  for (int64_t n = 0; n < top_groups_; ++n)
    s.group_kept[best(s.group_key, num_groups_, [&](int64_t g) { return s.group_kept[g] != 0; })] =
        1;
}

bool Routing::candidate(const Scores& s, int64_t expert) const {
  return !grouped_ || s.group_kept[expert / (num_experts_ / num_groups_)] != 0;
}

void Routing::route(const float* logits, double* scratch, Row& row) const {
  const Scores s = compute(logits, scratch);
  if (grouped_) drop_groups(s);
  for (int64_t j = 0; j < top_k_; ++j) {
    const auto taken = [&](int64_t e) {
      return !candidate(s, e) || std::find(row.ids, row.ids + j, e) != row.ids + j;
    };
    row.ids[j] = static_cast<int32_t>(best(s.key, num_experts_, taken));
  }
  set_weights(s, row);
  set_margin(s, grouped_, row);
}

void Routing::weigh(const float* logits, double* scratch, Row& row) const {
  const Scores s = compute(logits, scratch);
  set_weights(s, row);
  set_margin(s, false, row);
}

void Routing::set_weights(const Scores& s, Row& row) const {
  double sum = eps_;
  for (int64_t j = 0; j < top_k_; ++j) sum += s.score[row.ids[j]];
  for (int64_t j = 0; j < top_k_; ++j) {
    double weight = s.score[row.ids[j]];
    if (renormalize_) weight = sum == 0 ? 0.0 : weight / sum;
    row.weights[j] = weight * scale_;
  }
}

void Routing::set_margin(const Scores& s, bool grouped, Row& row) const {
  const double last = s.selection[row.ids[top_k_ - 1]];
  double out = kNever;
  bool any = false;
  for (int64_t e = 0; e < num_experts_; ++e) {
    if (grouped && !candidate(s, e)) continue;
    if (std::find(row.ids, row.ids + top_k_, e) != row.ids + top_k_) continue;
    any = true;
    out = std::max(out, s.selection[e]);
  }
  row.margin = !any ? HUGE_VAL : last == out ? 0.0 : last - out;  // -inf - -inf is no margin
}

}  // namespace moert::cpu
