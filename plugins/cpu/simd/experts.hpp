// cpu.simd of moert.routed_experts/1: experts at the speed of the machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/routed_experts.hpp>

#include "forward.hpp"
#include "isa.hpp"

namespace moert::cpu {

// Numbers keep what they have: f32 rows stay f32 unless the weights' format wants them quantised, and weights are
// widened where there is no instruction that multiplies them exactly. Sums are f32, each a chain in an order that
// follows from the weights' format and the instruction set; slots are added in their order. So a row's bits depend on
// the row, the weights and the instruction set alone.
class SimdExperts final : public RoutedExperts {
 public:
  static constexpr moert_kv_t kCaps[] = {
      {"device", "cpu"}, {"schemes", "any"}, {"activations", kActivations}};
  static constexpr FeatureInfo kFeature = {"cpu.simd", MOERT_RANK_GOOD, 0, kCaps, 3};
  static Support supports(const Host& host, const moert_moe_problem_t& problem);
  SimdExperts(const Host& host, const moert_moe_problem_t& problem, const Options& options);

  void load(const moert_piece_t& piece) override;
  void finish() override;
  uint64_t workspace(int64_t tokens) override;
  void forward(const moert_experts_args_t& args) override;
  uint64_t bundle_bytes() override;
  void read_expert(int64_t expert, void* bundle, uint64_t bytes, const moert_stream_t*) override;
  void write_expert(int64_t expert, const void* bundle, uint64_t bytes,
                    const moert_stream_t*) override;

 private:
  simd::BatchShape batch_shape(int64_t tokens) const;
  void expect_moved(int64_t expert, const void* bundle, uint64_t bytes);

  Host host_;
  ExpertsLimits limits_;
  Activation activation_;
  simd::Method method_;
  simd::PackedWeights weights_;
  bool finished_ = false;
};

}  // namespace moert::cpu
