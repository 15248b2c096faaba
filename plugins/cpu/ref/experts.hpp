// cpu.ref of moert.routed_experts/1: the oracle. Plain loops, f64, one rounding at the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/routed_experts.hpp>

#include "experts_rules.hpp"
#include "mlp.hpp"

namespace moert::cpu {

// Weights are decoded to f32 by the quant method as they arrive. A token is computed by one worker
// from its own row alone, slots in order, so the result does not depend on batch or threads.
class RefExperts final : public RoutedExperts {
 public:
  static constexpr moert_kv_t kCaps[] = {
      {"device", "cpu"}, {"schemes", "any"}, {"activations", kActivations}};
  static constexpr FeatureInfo kFeature = {"cpu.ref", MOERT_RANK_REFERENCE, 0, kCaps, 3};
  static Support supports(const Host& host, const moert_moe_problem_t& problem);
  RefExperts(const Host& host, const moert_moe_problem_t& problem, const Options& options);

  void load(const moert_piece_t& piece) override;
  void finish() override;
  uint64_t workspace(int64_t tokens) override;
  void forward(const moert_experts_args_t& args) override;
  uint64_t bundle_bytes() override;
  void read_expert(int64_t expert, void* bundle, uint64_t bytes, const moert_stream_t*) override;
  void write_expert(int64_t expert, const void* bundle, uint64_t bytes,
                    const moert_stream_t*) override;

 private:
  ExpertsRows check(const moert_experts_args_t& args);
  void token(const ExpertsRows& rows, int64_t t, double* scratch) const;
  // Throws unless the bundle of `expert` can be moved now.
  void expect_bundle(int64_t expert, const void* bundle, uint64_t bytes);

  Host host_;
  ExpertsLimits limits_;
  bool weight_on_input_;
  Activation activation_;
  MlpWeights weights_;
  bool finished_ = false;
};

}  // namespace moert::cpu
