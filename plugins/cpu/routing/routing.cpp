// The rule of routing for one token, in f64: scores, groups, choice, weights.
// SPDX-License-Identifier: Apache-2.0
#include "routing.hpp"

#include <algorithm>
#include <cmath>

#include "scoring.hpp"

namespace moert::cpu {
namespace {

constexpr double kNever = -HUGE_VAL;

// The one in [first, end) with the greatest key that is not yet taken; the lower one of equal keys.
template <class Taken>
int64_t best(const double* key, int64_t first, int64_t end, Taken&& taken) {
  int64_t found = -1;
  for (int64_t i = first; i < end; ++i)
    if (!taken(i) && (found < 0 || key[i] > key[found])) found = i;
  return found;
}

bool holds(const int32_t* ids, int64_t n, int64_t id) {
  return std::find(ids, ids + n, id) != ids + n;
}

Rule accepted(const moert_routing_t& routing) {
  Rule rule;
  read_rule(routing, &rule);
  return rule;
}

}  // namespace

std::string Routing::refusal(const moert_routing_t& routing) {
  Rule rule;
  return read_rule(routing, &rule);
}

Routing::Routing(const moert_routing_t& routing) : rule_(accepted(routing)) {
  if (rule_.method == Method::simulated) simulated_.emplace(rule_);
}

Routing::Scores Routing::compute(const float* logits, double* scratch) const {
  const int64_t n = rule_.num_experts;
  const Scores s = {scratch,         scratch + n,     scratch + 2 * n,
                    scratch + 3 * n, scratch + 4 * n, scratch + 4 * n + rule_.num_groups};
  if (simulated_) {
    simulated_->keys(logits, s.key);
    return s;
  }
  for (int64_t e = 0; e < n; ++e) s.x[e] = adjusted(rule_.params, logits[e]);
  scores(rule_.scoring, s.x, n, s.score);
  for (int64_t e = 0; e < n; ++e) {
    const double bias = bias_.empty() ? 0.0 : static_cast<double>(bias_[static_cast<size_t>(e)]);
    const double selection = (rule_.bias_on_logits ? s.x[e] : s.score[e]) + bias;
    // Infinities of either sign may meet here: that is no choice either.
    s.selection[e] = std::isnan(logits[e]) || std::isnan(selection) ? kNever : selection;
    // Every score rises with the logit, so without a bias the logits order the experts.
    s.key[e] =
        std::isnan(logits[e]) || !bias_.empty() ? s.selection[e] : static_cast<double>(logits[e]);
  }
  return s;
}

// Both rules of a group's score look at selection scores. Only the maximum may look at the keys
// instead: a sum of keys would not be the sum of the scores.
double Routing::group_key(const Scores& s, int64_t group) const {
  const int64_t size = group_size();
  const bool pair = rule_.top2 && size > 1;
  const double* key = pair ? s.selection : s.key;
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
  return !pair ? first : second == kNever ? kNever : first + second;
}

void Routing::drop_groups(const Scores& s) const {
  for (int64_t g = 0; g < rule_.num_groups; ++g) {
    s.group_key[g] = group_key(s, g);
    s.group_kept[g] = 0;
  }
  const auto kept = [&](int64_t g) { return s.group_kept[g] != 0; };
  for (int64_t n = 0; n < rule_.top_groups; ++n)
    s.group_kept[best(s.group_key, 0, rule_.num_groups, kept)] = 1;
}

bool Routing::candidate(const Scores& s, int64_t expert) const {
  return !rule_.grouped || s.group_kept[expert / group_size()] != 0;
}

void Routing::choose(const Scores& s, Row& row) const {
  if (rule_.grouped) drop_groups(s);
  for (int64_t j = 0; j < rule_.top_k; ++j) {
    const auto taken = [&](int64_t e) { return !candidate(s, e) || holds(row.ids, j, e); };
    row.ids[j] = static_cast<int32_t>(best(s.key, 0, rule_.num_experts, taken));
  }
}

void Routing::choose_in_each_group(const Scores& s, Row& row) const {
  const int64_t share = rule_.top_k / rule_.num_groups;
  for (int64_t j = 0; j < rule_.top_k; ++j) {
    const int64_t first = j / share * group_size();
    const auto taken = [&](int64_t e) { return holds(row.ids, j, e); };
    row.ids[j] = static_cast<int32_t>(best(s.key, first, first + group_size(), taken));
  }
  std::sort(row.ids, row.ids + rule_.top_k, [&](int32_t a, int32_t b) {
    return s.key[a] != s.key[b] ? s.key[a] > s.key[b] : a < b;
  });
}

void Routing::route(const float* logits, double* scratch, Row& row) const {
  const Scores s = compute(logits, scratch);
  if (rule_.method == Method::group_topk)
    choose_in_each_group(s, row);
  else
    choose(s, row);
  row.margin = native_margin(s, row);
  set_weights(s, row);
}

void Routing::weigh(const float* logits, double* scratch, Row& row) const {
  const Scores s = compute(logits, scratch);
  row.margin = margin(s, row, [](int64_t) { return true; });
  set_weights(s, row);
}

void Routing::plain_weights(const Scores& s, Row& row) const {
  const int64_t k = rule_.top_k;
  if (rule_.method == Method::sparsemixer) {
    // The second is weighed without the first. The keys are not needed any more.
    for (int64_t j = 0; j < k; ++j)
      row.weights[j] = sparsemixer_weight(s.x, rule_.num_experts, rule_.params.jitter_eps,
                                          j == 0 ? -1 : row.ids[0], row.ids[j], s.key);
    return;
  }
  for (int64_t j = 0; j < k; ++j) row.weights[j] = s.score[row.ids[j]];
  if (rule_.scoring == Scoring::softmax_topk) softmax(row.weights, k, row.weights);
}

void Routing::renormalize(Row& row) const {
  double sum = rule_.eps;
  for (int64_t j = 0; j < rule_.top_k; ++j) sum += row.weights[j];
  sum = std::max(sum, rule_.params.renormalize_floor);
  for (int64_t j = 0; j < rule_.top_k; ++j) row.weights[j] = sum == 0 ? 0.0 : row.weights[j] / sum;
}

void Routing::set_weights(const Scores& s, Row& row) const {
  const int64_t k = rule_.top_k;
  if (simulated_)
    std::fill(row.weights, row.weights + k, 1.0 / static_cast<double>(k));
  else
    plain_weights(s, row);
  if (rule_.renormalize && !simulated_) renormalize(row);
  for (int64_t j = 0; j < k; ++j) {
    row.weights[j] *= rule_.scale;
    if (!expert_scale_.empty()) row.weights[j] *= expert_scale_[static_cast<size_t>(row.ids[j])];
  }
}

// Of the experts that `eligible` lets in: the last slot's selection score minus the best one that was
// left out.
template <class Eligible>
double Routing::margin(const Scores& s, const Row& row, Eligible&& eligible) const {
  // Where scores choose nothing, none of them was close.
  if (simulated_ || by_token()) return HUGE_VAL;
  double last = kNever;
  double out = kNever;
  bool any = false;
  for (int64_t j = 0; j < rule_.top_k; ++j)
    if (eligible(row.ids[j])) last = s.selection[row.ids[j]];
  for (int64_t e = 0; e < rule_.num_experts; ++e) {
    if (!eligible(e) || holds(row.ids, rule_.top_k, e)) continue;
    any = true;
    out = std::max(out, s.selection[e]);
  }
  return !any ? HUGE_VAL : last == out ? 0.0 : last - out;  // -inf - -inf is no margin
}

double Routing::native_margin(const Scores& s, const Row& row) const {
  if (rule_.method != Method::group_topk)
    return margin(s, row, [&](int64_t e) { return candidate(s, e); });
  // Every group chose for itself: the closest of these choices.
  double least = HUGE_VAL;
  for (int64_t g = 0; g < rule_.num_groups; ++g)
    least = std::min(least, margin(s, row, [&](int64_t e) { return e / group_size() == g; }));
  return least;
}

}  // namespace moert::cpu
