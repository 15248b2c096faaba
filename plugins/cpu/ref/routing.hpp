// The rule of routing for one token, in f64: scores, groups, choice, weights.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/router.h>

#include <string>
#include <vector>

namespace moert::cpu {

// How odd logits are read, so that every row has k distinct experts and finite weights:
//  - NaN counts as minus infinity: its expert comes after every other one and has score 0;
//  - with plus infinity in a softmax row, those experts share the whole mass;
//  - a softmax row in which no logit is above minus infinity has scores of 0;
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

  // Scratch of a row, in doubles.
  int64_t scratch() const { return 3 * num_experts_ + 2 * num_groups_; }

  // The k chosen experts of a token, best first.
  struct Row {
    int32_t* ids;
    double* weights;
    double margin;  // see moert_router_args.margins; infinite if nothing was left out
  };
  // Chooses. `logits` has E numbers.
  void route(const float* logits, double* scratch, Row& row) const;
  // Weights and margin of ids that are given, by the same scores; bias and groups choose nothing here.
  void weigh(const float* logits, double* scratch, Row& row) const;

  int64_t num_experts() const { return num_experts_; }
  int64_t top_k() const { return top_k_; }

 private:
  // Per expert: what weighs, what is compared with the bias added, and what orders the choice.
  struct Scores {
    double* score;
    double* selection;
    double* key;
    double* group_key;
    double* group_kept;
  };
  Scores compute(const float* logits, double* scratch) const;
  void softmax(const float* logits, double* score) const;
  double group_key(const double* key, int64_t group) const;
  void drop_groups(const Scores& scores) const;
  bool candidate(const Scores& scores, int64_t expert) const;
  void set_weights(const Scores& scores, Row& row) const;
  void set_margin(const Scores& scores, bool grouped, Row& row) const;

  int64_t num_experts_, top_k_, num_groups_, top_groups_;
  bool sigmoid_, renormalize_, grouped_, top2_;
  double scale_, eps_;
  std::vector<float> bias_;  // empty: none
};

}  // namespace moert::cpu
