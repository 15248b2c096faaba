// A router's gate, packed in panels, and how its multiplication is cut into tasks.
// SPDX-License-Identifier: Apache-2.0
#include "router_gate.hpp"

#include <algorithm>
#include <cmath>

namespace moert::cpu::simd {
namespace {

int64_t over(int64_t a, int64_t b) { return (a + b - 1) / b; }

// NaN is, since which NaN it is does not matter.
bool fits_f32(double x) { return std::isnan(x) || static_cast<double>(static_cast<float>(x)) == x; }

template <class T>
Host::Array<T> pack(const Host& host, const std::vector<double>& gate, int64_t experts,
                    int64_t hidden, int64_t panels) {
  const int64_t size = panels * hidden * kGatePanel;
  Host::Array<T> to = host.alloc<T>(static_cast<uint64_t>(size), "a router's gate");
  for (int64_t p = 0; p < panels; ++p)
    for (int64_t d = 0; d < hidden; ++d)
      for (int64_t i = 0; i < kGatePanel; ++i) {
        const int64_t e = p * kGatePanel + i;
        const double number = e < experts ? gate[static_cast<size_t>(e * hidden + d)] : 0.0;
        to[static_cast<size_t>((p * hidden + d) * kGatePanel + i)] = static_cast<T>(number);
      }
  return to;
}

}  // namespace

PackedGate::PackedGate(const Host& host, const std::vector<double>& gate, int64_t experts,
                       int64_t hidden)
    : hidden_(hidden),
      panels_(over(experts, kGatePanel)),
      singles_(nullptr, Host::Free{host.get()}),
      doubles_(nullptr, Host::Free{host.get()}) {
  if (std::all_of(gate.begin(), gate.end(), fits_f32))
    singles_ = pack<float>(host, gate, experts, hidden, panels_);
  else
    doubles_ = pack<double>(host, gate, experts, hidden, panels_);
}

GateProduct PackedGate::part(int64_t panel, int64_t first, int64_t depth) const {
  const int64_t at = (panel * hidden_ + first) * kGatePanel;
  GateProduct product{};
  product.singles = singles_ != nullptr ? singles_.get() + at : nullptr;
  product.doubles = doubles_ != nullptr ? doubles_.get() + at : nullptr;
  product.depth = depth;
  return product;
}

GatePlan GatePlan::make(int64_t tokens, int64_t panels, int64_t threads) {
  const int64_t wanted = threads > 1 ? 2 * threads : 1;
  GatePlan plan = {tokens, panels, std::min(tokens, kMostTokens), 0};
  const int64_t blocks = over(tokens, plan.block);
  plan.span = std::clamp<int64_t>(panels * blocks / wanted, 1, kMostPanels);
  if (plan.tasks() < threads)
    plan.block = std::min(plan.block, over(tokens, over(threads, panels)));
  return plan;
}

}  // namespace moert::cpu::simd
