// The function between the projections: which ones there are, and their parameters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/problem.h>

#include <string>

#include "gemm.hpp"

namespace moert::gpu {

inline constexpr char kActivations[] =
    "silu, gelu, gelu_tanh, relu, relu2, swigluoai, swiglustep, situ";

// Why this activation cannot be computed; empty if it can.
std::string activation_refusal(const moert_activation_t* activation, bool gated);
// Of one that was not refused.
Bend bend_of(const moert_activation_t* activation);

}  // namespace moert::gpu
