// cpu.ref of moert.router/1: logits in f64, the rule of routing.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "routing/rule_router.hpp"

namespace moert::cpu {

class RefRouter final : public RuleRouter {
 public:
  static constexpr moert_kv_t kCaps[] = {
      {"device", "cpu"}, {"methods", kMethods}, {"scorings", kScorings}};
  static constexpr FeatureInfo kFeature = {"cpu.ref", MOERT_RANK_REFERENCE, 0, kCaps, 3};
  static Support supports(const Host& host, const moert_routing_t& routing);
  RefRouter(const Host& host, const moert_routing_t& routing, const Options& options)
      : RuleRouter(host, routing, options) {}

 private:
  void take_gate(std::vector<double> gate) override { gate_ = std::move(gate); }
  uint64_t logits_workspace(int64_t tokens) const override;
  void compute(const Matrix& hidden, const Matrix& out, void* workspace) const override;

  std::vector<double> gate_;  // [E, H]
};

}  // namespace moert::cpu
