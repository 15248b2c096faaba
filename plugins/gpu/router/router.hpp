// moert.router/1 on a GPU: logits in f64 sums, and the whole rule of routing on the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/router.hpp>

#include "../backend.hpp"
#include "route.hpp"
#include "tensors.hpp"

namespace moert::gpu {

// Ids are those of the reference for the same logits; those of `simulated` are drawn in another way from the same
// probabilities. Forced ids and token ids that are wrong cannot be refused by the call: such a row gets no experts,
// and the next synchronisation with the device says why (faults.hpp).
class GpuRouter final : public Router {
 public:
  static constexpr moert_kv_t kRouterCaps[] = {
      {"device", MOERT_GPU_WORD}, {"methods", kMethods}, {"scorings", kScorings}};
  static constexpr FeatureInfo kFeature = {MOERT_GPU_WORD ".router", MOERT_RANK_GOOD, 0,
                                           kRouterCaps, 3};
  static Support supports(const Host& host, const moert_routing_t& routing);
  GpuRouter(const Host& host, const moert_routing_t& routing, const Options& options);

  void load(uint32_t which, const moert_tensor_t& tensor) override;
  void finish() override;
  uint64_t workspace(int64_t tokens) override;
  void logits(const moert_router_args_t& args) override;
  void route(const moert_router_args_t& args) override;

 private:
  // Throws unless finished and understood.
  void* ready_stream(const moert_router_args_t& args) const;
  void expect_tokens(int64_t tokens) const;
  RouteArgs route_args(const moert_router_args_t& args) const;

  Rule rule_;
  moert_device_id_t device_;
  uint32_t activation_dtype_;
  int64_t hidden_size_, max_tokens_;
  bool normed_;
  int32_t warp_;
  uint32_t shared_bytes_;
  RouterTensors tensors_;
  DeviceMemory log_p_;  // of simulated
  Fault* fault_;
  bool finished_ = false;
};

}  // namespace moert::gpu
