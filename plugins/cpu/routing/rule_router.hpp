// A router but for its logits: tensors, arguments, and the rule behind the logits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/router.hpp>

#include "matrix.hpp"
#include "router_tensors.hpp"
#include "routing.hpp"

namespace moert::cpu {

// What every implementation of moert.router/1 here has in common, so that ids, weights and margins follow from the
// logits in one way. Whoever derives computes the logits.
class RuleRouter : public Router {
 public:
  void load(uint32_t which, const moert_tensor_t& tensor) final;
  void finish() final;
  uint64_t workspace(int64_t tokens) final;
  void logits(const moert_router_args_t& args) final;
  void route(const moert_router_args_t& args) final;

 protected:
  // Why nobody here follows this rule; empty if the rest may be looked at.
  static std::string refusal(const moert_routing_t& routing);
  // Throws MOERT_UNIMPLEMENTED for what refusal() names.
  RuleRouter(const Host& host, const moert_routing_t& routing, const Options& options);

  // Called once, when every tensor is there; `gate` is [E, H].
  virtual void take_gate(std::vector<double> gate) = 0;
  // Bytes of the workspace for compute() of as many tokens; 0 for none, and does not fall as tokens grow.
  virtual uint64_t logits_workspace(int64_t tokens) const = 0;
  // Writes every element of `out`, f32 [T, E], from `hidden` [T, H]. Both were checked; T may be 0.
  virtual void compute(const Matrix& hidden, const Matrix& out, void* workspace) const = 0;

  const Host& host() const { return host_; }
  int64_t experts() const { return rule_.num_experts(); }
  int64_t hidden_size() const { return hidden_size_; }
  // What is added to the logit of an expert.
  double gate_bias(int64_t expert) const {
    return tensors_.gate_bias.empty() ? 0.0 : tensors_.gate_bias[static_cast<size_t>(expert)];
  }
  bool normed() const { return !tensors_.input_scale.empty(); }
  // What an input norm multiplies all of row t by; 1 without a norm.
  double input_factor(const Matrix& hidden, int64_t t) const;
  // Columns [first, first + count) of row t as the gate reads them, normed by the row's factor.
  void read_input(const Matrix& hidden, int64_t t, double factor, int64_t first, int64_t count,
                  double* to) const;

 private:
  struct Rows;
  Rows check_route(const moert_router_args_t& args);
  // Whether row t is replayed; throws for one that is neither that nor all -1.
  bool forced(const Rows& rows, int64_t t) const;
  // Throws for a token id that is neither -1 nor in the table.
  void check_token(const Rows& rows, int64_t t) const;
  // Ids of row t if they are given, as forced ones or by the token table.
  enum class Given { none, all, absent };
  Given given_ids(const Rows& rows, int64_t t, int32_t* ids) const;
  void route_row(const Rows& rows, int64_t t, double* scratch) const;
  void expect_finished() const;
  void expect_tokens(int64_t tokens) const;

  Host host_;
  Routing rule_;
  RouterTensors tensors_;
  uint32_t activation_dtype_;
  int64_t hidden_size_, max_tokens_;
  bool finished_ = false;
};

}  // namespace moert::cpu
