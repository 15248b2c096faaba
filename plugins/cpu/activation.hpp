// The function between an expert's two projections.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/problem.h>

#include <string>

namespace moert::cpu {

// g is the gate half, u the up half, L the limit; sig(x) = 1 / (1 + exp(-x)):
//   silu        g sig(g) u                               with a limit: g = min(g, L), u = clamp(u)
//   gelu        g/2 (1 + erf(g / sqrt 2)) u
//   gelu_tanh   the same with tanh(sqrt(2/pi) (g + 0.044715 g^3))
//   relu        max(g, 0) u
//   relu2       max(g, 0)^2 u
//   swigluoai   g sig(alpha g) (u + beta)                with a limit: g = min(g, L), u = clamp(u)
//   swiglustep  min(g sig(g), L) clamp(u): the limit comes after the silu, and it must be given
//   situ        beta tanh(g / beta) sig(g) u'       with an alpha: u' = alpha tanh(u / alpha), else u
// clamp(u) is u kept in [-L, L]. Without a gate half: the same in one argument, without u.
class Activation {
 public:
  // Why this activation cannot be computed; empty if it can.
  static std::string refusal(const moert_activation_t* activation, bool gated);
  // Of one that was not refused.
  explicit Activation(const moert_activation_t& activation);

  double gated(double g, double u) const;
  double plain(double x) const;

 private:
  enum class Rule { silu, gelu, gelu_tanh, relu, relu2, swigluoai, swiglustep, situ };
  Rule rule_;
  double alpha_, beta_, limit_;
};

inline constexpr char kActivations[] =
    "silu, gelu, gelu_tanh, relu, relu2, swigluoai, swiglustep, situ";

}  // namespace moert::cpu
