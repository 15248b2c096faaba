// "<word>.shared" of moert.shared_experts/1: one dense MLP on a GPU, with or without a sigmoid gate.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/shared_experts.hpp>

#include <vector>

#include "../backend.hpp"
#include "activation.hpp"
#include "mlps.hpp"

namespace moert::gpu {

// The shared experts are one expert that every token takes; what the gate gives is the token's weight.
class GpuShared final : public SharedExperts {
 public:
  static constexpr moert_kv_t kCaps[] = {
      {"device", MOERT_GPU_WORD}, {"schemes", "any"}, {"activations", kActivations}};
  static constexpr FeatureInfo kFeature = {MOERT_GPU_WORD ".shared", MOERT_RANK_GOOD, 0, kCaps, 3};
  static Support supports(const Host& host, const moert_shared_problem_t& problem);
  GpuShared(const Host& host, const moert_shared_problem_t& problem, const Options& options);
  ~GpuShared() override;
  GpuShared(const GpuShared&) = delete;
  GpuShared& operator=(const GpuShared&) = delete;

  void load(const moert_piece_t& piece) override;
  void finish() override;
  uint64_t workspace(int64_t tokens) override;
  void forward(const moert_shared_args_t& args) override;

 private:
  void load_gate(const moert_piece_t& piece);
  // Behind the MLP's workspace.
  static uint64_t factor_bytes(int64_t tokens);

  moert_device_id_t device_;
  int64_t hidden_, max_tokens_;
  uint32_t activation_dtype_, output_dtype_;
  bool has_gate_;
  std::vector<double> gate_numbers_;  // [hidden]; empty until it is loaded
  double* gate_ = nullptr;            // the same on the device, from finish on
  Mlps mlps_;
  bool finished_ = false;
};

}  // namespace moert::gpu
