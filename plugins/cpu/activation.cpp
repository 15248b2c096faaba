// The function between an expert's two projections.
// SPDX-License-Identifier: Apache-2.0
#include "activation.hpp"

#include <cmath>
#include <moert/sdk/adapter.hpp>
#include <string_view>

namespace moert::cpu {
namespace {

// Which parameters a rule reads. One that it does not read must be 0: a number that was given and is
// then ignored would be a wrong answer that looks right.
struct Entry {
  const char* name;
  bool alpha, beta, limit;
  bool needs_limit;
  bool needs_gate;
};
constexpr Entry kEntries[] = {
    {"silu", false, false, true, false, false},       {"gelu", false, false, false, false, false},
    {"gelu_tanh", false, false, false, false, false}, {"relu", false, false, false, false, false},
    {"relu2", false, false, false, false, false},     {"swigluoai", true, true, true, false, true},
    {"swiglustep", false, false, true, true, true},   {"situ", true, true, false, false, true},
};

int find(const char* name) {
  for (int i = 0; i < static_cast<int>(std::size(kEntries)); ++i)
    if (name != nullptr && std::string_view(name) == kEntries[i].name) return i;
  return -1;
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double silu(double x) { return x * sigmoid(x); }
// Comparisons are written such that NaN comes out as NaN.
double at_most(double x, double limit) { return x > limit ? limit : x; }
double clamp(double x, double limit) { return x > limit ? limit : x < -limit ? -limit : x; }

}  // namespace

std::string Activation::refusal(const moert_activation_t* activation, bool gated) {
  if (activation == nullptr) return "no activation is given";
  const moert_activation_t a = intake(activation);
  if (a.flags != 0) return "activation flag bits " + std::to_string(a.flags) + " are not known";
  const int found = find(a.name);
  const std::string name(a.name == nullptr ? "" : a.name);
  if (found < 0) return "activation '" + name + "' is not known, only " + kActivations;
  const Entry& entry = kEntries[found];
  const auto unused = [](bool used, double value) { return !used && value != 0; };
  if (unused(entry.alpha, a.alpha) || unused(entry.beta, a.beta) || unused(entry.limit, a.limit))
    return name + " does not use all of alpha " + std::to_string(a.alpha) + ", beta " +
           std::to_string(a.beta) + ", limit " + std::to_string(a.limit);
  if (!std::isfinite(a.alpha) || !std::isfinite(a.beta) || !(a.limit >= 0))
    return name + " with limit " + std::to_string(a.limit) +
           ": parameters must be finite, limit >= 0";
  if (name == "situ") {
    if (!(a.beta > 0)) return name + " needs a beta above 0";
    if (a.alpha < 0) return name + " with alpha " + std::to_string(a.alpha) + ": it must be >= 0";
  } else if (entry.alpha && a.alpha == 0) {
    return name + " needs alpha";
  }
  if (entry.needs_limit && a.limit == 0) return name + " needs a limit";
  if (entry.needs_gate && !gated) return name + " needs a gate half, and the experts have none";
  return {};
}

Activation::Activation(const moert_activation_t& activation)
    : rule_(static_cast<Rule>(find(activation.name))),
      alpha_(activation.alpha),
      beta_(activation.beta),
      limit_(activation.limit > 0 ? activation.limit : HUGE_VAL) {}

double Activation::plain(double x) const {
  constexpr double kSqrtHalf = 0.70710678118654752440;
  constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
  switch (rule_) {
    case Rule::gelu: return 0.5 * x * (1.0 + std::erf(x * kSqrtHalf));
    case Rule::gelu_tanh:
      return 0.5 * x * (1.0 + std::tanh(kSqrtTwoOverPi * (x + 0.044715 * x * x * x)));
    case Rule::relu: return x < 0 ? 0.0 : x;
    case Rule::relu2: return x < 0 ? 0.0 : x * x;
    default: return silu(at_most(x, limit_));
  }
}

double Activation::gated(double g, double u) const {
  switch (rule_) {
    case Rule::silu: return silu(at_most(g, limit_)) * clamp(u, limit_);
    case Rule::swigluoai: {
      const double x = at_most(g, limit_);
      return x * sigmoid(alpha_ * x) * (clamp(u, limit_) + beta_);
    }
    case Rule::swiglustep: return at_most(silu(g), limit_) * clamp(u, limit_);
    case Rule::situ:
      return beta_ * std::tanh(g / beta_) * sigmoid(g) *
             (alpha_ > 0 ? alpha_ * std::tanh(u / alpha_) : u);
    default: return plain(g) * u;
  }
}

}  // namespace moert::cpu
