// cpu.simd of moert.shared_experts/1: routed experts of one expert that every token takes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/shared_experts.hpp>

#include "experts.hpp"
#include "sigmoid_gate.hpp"

namespace moert::cpu {

// Formats, activations and numbers are those of SimdExperts. A token's weight is 1, or the sigmoid gate's factor:
// summed in f64 and rounded once to f32.
class SimdShared final : public SharedExperts {
 public:
  static constexpr moert_kv_t kCaps[] = {
      {"device", "cpu"}, {"schemes", "any"}, {"activations", kActivations}};
  static constexpr FeatureInfo kFeature = {"cpu.simd", MOERT_RANK_GOOD, 0, kCaps, 3};
  static Support supports(const Host& host, const moert_shared_problem_t& problem);
  SimdShared(const Host& host, const moert_shared_problem_t& problem, const Options& options);

  void load(const moert_piece_t& piece) override;
  void finish() override;
  uint64_t workspace(int64_t tokens) override;
  void forward(const moert_shared_args_t& args) override;

 private:
  // Factors of the tokens' sigmoid gates, or ones.
  void weigh(const Matrix& hidden, float* weights, double* scratch) const;

  Host host_;
  uint32_t activation_dtype_;
  int64_t hidden_size_, max_tokens_;
  SimdExperts experts_;
  SigmoidGate gate_;
  bool finished_ = false;
};

}  // namespace moert::cpu
