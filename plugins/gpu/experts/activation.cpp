// The function between the projections: which ones there are, and their parameters.
// SPDX-License-Identifier: Apache-2.0
#include "activation.hpp"

#include <moert/sdk/adapter.hpp>

#include <cmath>
#include <string_view>

namespace moert::gpu {
namespace {

// Which parameters a curve reads. Others must be 0: a number that is given and then ignored would be a wrong answer
// that looks right.
struct Entry {
  std::string_view name;
  Curve curve;
  bool alpha, beta, limit;
  bool needs_limit, needs_gate;
};
constexpr Entry kEntries[] = {
    {"silu", Curve::silu, false, false, true, false, false},
    {"gelu", Curve::gelu, false, false, false, false, false},
    {"gelu_tanh", Curve::gelu_tanh, false, false, false, false, false},
    {"relu", Curve::relu, false, false, false, false, false},
    {"relu2", Curve::relu2, false, false, false, false, false},
    {"swigluoai", Curve::swigluoai, true, true, true, false, true},
    {"swiglustep", Curve::swiglustep, false, false, true, true, true},
    {"situ", Curve::situ, true, true, false, false, true},
};

const Entry* find(const char* name) {
  for (const Entry& entry : kEntries)
    if (name != nullptr && entry.name == name) return &entry;
  return nullptr;
}

std::string refuse_numbers(const Entry& entry, const moert_activation_t& a) {
  const std::string name(entry.name);
  const auto given = [](bool used, double value) { return !used && value != 0; };
  if (given(entry.alpha, a.alpha) || given(entry.beta, a.beta) || given(entry.limit, a.limit))
    return name + " does not use all of alpha " + std::to_string(a.alpha) + ", beta " +
           std::to_string(a.beta) + ", limit " + std::to_string(a.limit);
  if (!std::isfinite(a.alpha) || !std::isfinite(a.beta) || !(a.limit >= 0))
    return name + " with limit " + std::to_string(a.limit) +
           ": parameters must be finite, limit >= 0";
  if (entry.curve == Curve::situ && !(a.beta > 0)) return name + " needs a beta above 0";
  if (entry.curve == Curve::situ && a.alpha < 0)
    return name + " with alpha " + std::to_string(a.alpha) + ": it must be >= 0";
  if (entry.curve == Curve::swigluoai && a.alpha == 0) return name + " needs alpha";
  if (entry.needs_limit && a.limit == 0) return name + " needs a limit";
  return {};
}

}  // namespace

std::string activation_refusal(const moert_activation_t* activation, bool gated) {
  if (activation == nullptr) return "no activation is given";
  const moert_activation_t a = intake(activation);
  if (a.flags != 0) return "activation flag bits " + std::to_string(a.flags) + " are not known";
  const Entry* entry = find(a.name);
  if (entry == nullptr)
    return "activation '" + std::string(a.name == nullptr ? "" : a.name) + "' is not known, only " +
           kActivations;
  if (std::string reason = refuse_numbers(*entry, a); !reason.empty()) return reason;
  if (entry->needs_gate && !gated)
    return std::string(entry->name) + " needs a gate half, and the experts have none";
  return {};
}

Bend bend_of(const moert_activation_t* activation) {
  const moert_activation_t a = intake(activation);
  const Entry* entry = find(a.name);
  return {entry == nullptr ? Curve::silu : entry->curve, static_cast<float>(a.alpha),
          static_cast<float>(a.beta), a.limit > 0 ? static_cast<float>(a.limit) : HUGE_VALF};
}

}  // namespace moert::gpu
