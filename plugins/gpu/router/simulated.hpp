// Probabilities of routing that is made up, for benchmarks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "rule.hpp"

namespace moert::gpu {

// Logarithms of what experts are drawn in proportion to, [E].
std::vector<double> log_probabilities(const Rule& rule);

}  // namespace moert::gpu
