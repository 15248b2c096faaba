// The rule of routing for one token, in f64: scores, groups, choice, weights.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/router.h>

#include <optional>
#include <string>
#include <vector>

#include "routing_rule.hpp"
#include "simulated.hpp"

namespace moert::cpu {

// How odd logits are read, so that every row has k distinct experts and finite weights:
//  - NaN counts as minus infinity: its expert comes after every other one and has score 0;
//  - with plus infinity in a softmax row, those experts share the whole mass;
//  - a softmax row in which no logit is above minus infinity has scores of 0;
//  - sqrtsoftplus reads plus infinity as the largest f32;
//  - if the sum to renormalise by is 0, the weights are 0.
// Without a bias the choice is made by the logits themselves, so that scores that saturate or underflow
// don't make ties of what is none.
class Routing {
 public:
  // Why this rule cannot be followed; empty if it can.
  static std::string refusal(const moert_routing_t& routing);
  // Of one that was not refused. Copies what it keeps.
  explicit Routing(const moert_routing_t& routing);

  // The selection bias, [E], as stored.
  void set_bias(std::vector<float> bias) { bias_ = std::move(bias); }
  // What weights are multiplied by at last, [E].
  void set_expert_scale(std::vector<double> scale) { expert_scale_ = std::move(scale); }

  // Scratch of a row, in doubles.
  int64_t scratch() const { return 4 * rule_.num_experts + 2 * rule_.num_groups; }

  // The k chosen experts of a token, best first.
  struct Row {
    int32_t* ids;
    double* weights;
    double margin;  // see moert_router_args.margins; infinite if nothing was left out
  };
  // Chooses. `logits` has E numbers. Not for hash, whose ids are given.
  void route(const float* logits, double* scratch, Row& row) const;
  // Weights and margin of ids that are given, by the same scores; bias and groups choose nothing here.
  void weigh(const float* logits, double* scratch, Row& row) const;

  int64_t num_experts() const { return rule_.num_experts; }
  int64_t top_k() const { return rule_.top_k; }
  bool by_token() const { return rule_.method == Method::hash; }
  const RoutingParams& params() const { return rule_.params; }

 private:
  // Per expert: the adjusted logit, what weighs, what is compared with the bias added, and what orders
  // the choice.
  struct Scores {
    double* x;
    double* score;
    double* selection;
    double* key;
    double* group_key;
    double* group_kept;
  };
  Scores compute(const float* logits, double* scratch) const;
  int64_t group_size() const { return rule_.num_experts / rule_.num_groups; }
  double group_key(const Scores& scores, int64_t group) const;
  void drop_groups(const Scores& scores) const;
  bool candidate(const Scores& scores, int64_t expert) const;
  void choose(const Scores& scores, Row& row) const;
  void choose_in_each_group(const Scores& scores, Row& row) const;
  void plain_weights(const Scores& scores, Row& row) const;
  void renormalize(Row& row) const;
  void set_weights(const Scores& scores, Row& row) const;
  template <class Eligible>
  double margin(const Scores& scores, const Row& row, Eligible&& eligible) const;
  double native_margin(const Scores& scores, const Row& row) const;

  Rule rule_;
  std::optional<Simulated> simulated_;
  std::vector<float> bias_;           // empty: none
  std::vector<double> expert_scale_;  // empty: none
};

}  // namespace moert::cpu
