// Probabilities of routing that is made up, for benchmarks.
// SPDX-License-Identifier: Apache-2.0
#include "simulated.hpp"

#include <algorithm>
#include <cmath>

namespace moert::gpu {
namespace {

// Share of the standard normal distribution below log(share / (1 - share)).
double below(double share) {
  return std::erfc(-std::log(share / (1 - share)) / std::sqrt(2.0)) / 2;
}

double bell(int32_t expert, int32_t experts) {
  // Symmetric; the lower half does not subtract numbers next to 1.
  const auto low = static_cast<double>(std::min(expert, experts - 1 - expert));
  return below((low + 1) / experts) - below(low / experts);
}

}  // namespace

std::vector<double> log_probabilities(const Rule& rule) {
  std::vector<double> log_p;
  for (int32_t e = 0; e < rule.num_experts; ++e) switch (rule.distribution) {
      case Distribution::zipf: log_p.push_back(-std::log(static_cast<double>(e) + 1)); break;
      case Distribution::normal: log_p.push_back(std::log(bell(e, rule.num_experts))); break;
      default: log_p.push_back(0); break;
    }
  return log_p;
}

}  // namespace moert::gpu
