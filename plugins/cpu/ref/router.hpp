// cpu.ref of moert.router/1: logits in f64, the rule of routing.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/router.hpp>
#include <vector>

#include "matrix.hpp"
#include "routing.hpp"

namespace moert::cpu {

class RefRouter final : public Router {
 public:
  static constexpr moert_kv_t kCaps[] = {
      {"device", "cpu"}, {"methods", "topk"}, {"scorings", "softmax, sigmoid"}};
  static constexpr FeatureInfo kFeature = {"cpu.ref", MOERT_RANK_REFERENCE, 0, kCaps, 3};
  static Support supports(const Host& host, const moert_routing_t& routing);
  RefRouter(const Host& host, const moert_routing_t& routing, const Options& options);

  void load(uint32_t which, const moert_tensor_t& tensor) override;
  void finish() override;
  uint64_t workspace(int64_t tokens) override;
  void logits(const moert_router_args_t& args) override;
  void route(const moert_router_args_t& args) override;

 private:
  struct Rows;
  Rows check_route(const moert_router_args_t& args);
  // Whether row t is replayed; throws for one that is neither that nor all -1.
  bool forced(const Rows& rows, int64_t t) const;
  void route_row(const Rows& rows, int64_t t, double* scratch) const;
  void expect_finished() const;
  void expect_tokens(int64_t tokens) const;

  Host host_;
  Routing rule_;
  uint32_t flags_, activation_dtype_;
  int64_t hidden_size_, max_tokens_;
  std::vector<double> gate_;  // [E, H]: f64 holds every dtype that a gate may have
  std::vector<double> gate_bias_;
  uint32_t loaded_ = 0;  // bit MOERT_ROUTER_*
  bool finished_ = false;
};

}  // namespace moert::cpu
