// cpu.simd of moert.router/1: the oracle's logits, bit for bit, by vector instructions, and the oracle's rule.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "experts.hpp"
#include "router_gate.hpp"
#include "routing/rule_router.hpp"

namespace moert::cpu {

// One lane is one expert, and walks through the columns in their order: the sums are those of cpu.ref, in f64 and
// rounded once to f32, at every level of instructions. So are ids, weights and margins.
class SimdRouter final : public RuleRouter {
 public:
  static constexpr moert_kv_t kCaps[] = {
      {"device", "cpu"}, {"methods", kMethods}, {"scorings", kScorings}};
  static constexpr FeatureInfo kFeature = {"cpu.simd", MOERT_RANK_GOOD, 0, kCaps, 3};
  static Support supports(const Host& host, const moert_routing_t& routing);
  SimdRouter(const Host& host, const moert_routing_t& routing, const Options& options);

 private:
  void take_gate(std::vector<double> gate) override;
  uint64_t logits_workspace(int64_t tokens) const override;
  void compute(const Matrix& hidden, const Matrix& out, void* workspace) const override;

  struct Rows;
  void task(const Rows& rows, const simd::GatePlan& plan, int64_t index, double* scratch) const;

  const simd::Kernels& kernels_;
  std::optional<simd::PackedGate> gate_;
};

}  // namespace moert::cpu
