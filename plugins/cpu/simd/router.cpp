// cpu.simd of moert.router/1: the oracle's logits, bit for bit, by vector instructions, and the oracle's rule.
// SPDX-License-Identifier: Apache-2.0
#include "router.hpp"

#include <algorithm>

#include "scratch.hpp"

namespace moert::cpu {
namespace {

using namespace simd;

// Numbers of rows that a task has as f64 at a time: of many rows a few columns, so that the same columns of a panel
// stay in the nearest cache while the rows pass.
constexpr int64_t kNumbers = GatePlan::kMostTokens * 128;

const Kernels& chosen_kernels() {
  const IsaChoice choice = choose_isa();
  if (!choice.refusal.empty()) throw PluginError(MOERT_UNIMPLEMENTED, choice.refusal);
  return kernels_of(choice.isa);
}

int64_t panels_of(int64_t experts) { return (experts + kGatePanel - 1) / kGatePanel; }

// What a worker needs beside its rows: sums of a task, [panels][tokens][32].
int64_t most_sums(int64_t tokens, int64_t experts) {
  return std::min(tokens, GatePlan::kMostTokens) *
         std::min(panels_of(experts), GatePlan::kMostPanels) * kGatePanel;
}

// Doubles for a factor per token, in whole cache lines.
int64_t factors_size(int64_t tokens) { return (tokens + 7) / 8 * 8; }

}  // namespace

Support SimdRouter::supports(const Host&, const moert_routing_t& routing) {
  std::string reason = refusal(routing);
  if (reason.empty()) reason = choose_isa().refusal;
  if (!reason.empty()) return Support::no(reason);
  Support answer = Support::yes(MOERT_SUPPORT_DETERMINISTIC);
  // Nothing here says what the gate's type is. One of f64 that f32 cannot hold takes twice as much.
  answer.persistent_bytes =
      static_cast<uint64_t>(panels_of(routing.num_experts) * kGatePanel * routing.hidden_size) *
      sizeof(float);
  answer.reason = "instructions " + std::string(isa_name(choose_isa().isa));
  return answer;
}

SimdRouter::SimdRouter(const Host& host, const moert_routing_t& routing, const Options& options)
    : RuleRouter(host, routing, options), kernels_(chosen_kernels()) {}

void SimdRouter::take_gate(std::vector<double> gate) {
  gate_.emplace(host(), gate, experts(), hidden_size());
}

uint64_t SimdRouter::logits_workspace(int64_t tokens) const {
  if (tokens <= 0) return 0;
  return static_cast<uint64_t>(factors_size(tokens)) * sizeof(double) +
         Scratch::bytes(host(), tokens, {kNumbers, most_sums(tokens, experts())});
}

struct SimdRouter::Rows {
  const Matrix &hidden, &out;
  const double* factors;  // of the input norm, [T]; else nobody reads them
  bool exact;
};

void SimdRouter::compute(const Matrix& hidden, const Matrix& out, void* workspace) const {
  const int64_t tokens = hidden.rows();
  if (tokens == 0) return;
  auto* factors = static_cast<double*>(workspace);
  const Scratch scratch(factors + factors_size(tokens), {kNumbers, most_sums(tokens, experts())});
  if (normed())
    host().parallel_for(tokens, 1, [&](int64_t begin, int64_t end, int32_t) {
      for (int64_t t = begin; t < end; ++t) factors[t] = input_factor(hidden, t);
    });
  const Rows rows = {hidden, out, factors, !normed() && hidden.dtype() != MOERT_DTYPE_F64};
  const GatePlan plan = GatePlan::make(tokens, gate_->panels(), host().num_threads());
  host().parallel_for(plan.tasks(), 1, [&](int64_t begin, int64_t end, int32_t worker) {
    for (int64_t i = begin; i < end; ++i) task(rows, plan, i, scratch.of(worker));
  });
}

void SimdRouter::task(const Rows& rows, const GatePlan& plan, int64_t index,
                      double* scratch) const {
  const int64_t token = index / plan.spans() * plan.block;
  const int64_t count = std::min(plan.block, plan.tokens - token);
  const int64_t first = index % plan.spans() * plan.span;
  const int64_t panels = std::min(plan.span, plan.panels - first);
  double* x = scratch;
  double* sums = scratch + kNumbers;
  const int64_t pass = kNumbers / count;
  for (int64_t column = 0; column < hidden_size(); column += pass) {
    const int64_t depth = std::min(pass, hidden_size() - column);
    for (int64_t r = 0; r < count; ++r)
      read_input(rows.hidden, token + r, normed() ? rows.factors[token + r] : 1.0, column, depth,
                 x + r * depth);
    for (int64_t p = 0; p < panels; ++p) {
      GateProduct product = gate_->part(first + p, column, depth);
      product.rows = x;
      product.stride = depth;
      product.count = count;
      product.exact = rows.exact && product.singles != nullptr;
      product.sums = sums + p * count * kGatePanel;
      product.add = column > 0;
      kernels_.gate(product);
    }
  }
  const int64_t end = std::min(experts(), (first + panels) * kGatePanel);
  for (int64_t r = 0; r < count; ++r)
    for (int64_t e = first * kGatePanel; e < end; ++e) {
      const int64_t at = e - first * kGatePanel;
      const double* row = sums + (at / kGatePanel * count + r) * kGatePanel;
      rows.out.set(token + r, e, row[at % kGatePanel] + gate_bias(e));
    }
}

}  // namespace moert::cpu
