// "<word>.experts" of moert.routed_experts/1: experts on a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/routed_experts.hpp>

#include "../backend.hpp"
#include "activation.hpp"
#include "mlps.hpp"

namespace moert::gpu {

// A row's bits depend on the row, the weights and the device's tiles alone: slots are added in their order, and sums of
// a matrix product in one order whatever the batch; that does not hold with the option `gemm` (special.hpp), which asks
// for one architecture's instructions. Ids that are wrong on the device count as -1 (faults.hpp).
class GpuExperts final : public RoutedExperts {
 public:
  static constexpr moert_kv_t kCaps[] = {
      {"device", MOERT_GPU_WORD}, {"schemes", "any"}, {"activations", kActivations}};
  static constexpr FeatureInfo kFeature = {MOERT_GPU_WORD ".experts", MOERT_RANK_GOOD, 0, kCaps, 3};
  static Support supports(const Host& host, const moert_moe_problem_t& problem);
  GpuExperts(const Host& host, const moert_moe_problem_t& problem, const Options& options);

  void load(const moert_piece_t& piece) override;
  void finish() override;
  uint64_t workspace(int64_t tokens) override;
  void forward(const moert_experts_args_t& args) override;
  uint64_t bundle_bytes() override;
  void read_expert(int64_t expert, void* bundle, uint64_t bytes,
                   const moert_stream_t* stream) override;
  void write_expert(int64_t expert, const void* bundle, uint64_t bytes,
                    const moert_stream_t* stream) override;

 private:
  MlpBatch checked(const moert_experts_args_t& args) const;
  void expect_bundle(int64_t expert, const void* bundle, uint64_t bytes) const;

  moert_device_id_t device_;
  int64_t hidden_, experts_, top_k_, max_tokens_;
  uint32_t activation_dtype_, output_dtype_;
  Mlps mlps_;
  bool finished_ = false;
};

}  // namespace moert::gpu
