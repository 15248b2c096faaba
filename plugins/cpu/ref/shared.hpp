// cpu.ref of moert.shared_experts/1: one dense MLP, with or without a sigmoid gate.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/shared_experts.hpp>

#include "matrix.hpp"
#include "mlp.hpp"
#include "sigmoid_gate.hpp"

namespace moert::cpu {

class RefShared final : public SharedExperts {
 public:
  static constexpr moert_kv_t kCaps[] = {
      {"device", "cpu"}, {"schemes", "any"}, {"activations", kActivations}};
  static constexpr FeatureInfo kFeature = {"cpu.ref", MOERT_RANK_REFERENCE, 0, kCaps, 3};
  static Support supports(const Host& host, const moert_shared_problem_t& problem);
  RefShared(const Host& host, const moert_shared_problem_t& problem, const Options& options);

  void load(const moert_piece_t& piece) override;
  void finish() override;
  uint64_t workspace(int64_t tokens) override;
  void forward(const moert_shared_args_t& args) override;

 private:
  void token(const Matrix& hidden, const Matrix& out, int64_t t, double* scratch) const;

  Host host_;
  int64_t max_tokens_;
  uint32_t activation_dtype_, output_dtype_;
  Activation activation_;
  MlpWeights weights_;
  SigmoidGate gate_;
  bool finished_ = false;
};

}  // namespace moert::cpu
