// Routing that is made up, for benchmarks: experts are drawn from a distribution.
// SPDX-License-Identifier: Apache-2.0
#include "simulated.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace moert::cpu {
namespace {

constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;

// splitmix64's step and output: every bit of the argument changes half of the result's.
uint64_t mix(uint64_t z) {
  z += kStep;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Share of the standard normal distribution below log(share / (1 - share)).
double below(double share) {
  return 0.5 * std::erfc(-std::log(share / (1 - share)) / std::sqrt(2.0));
}

double probability(Distribution distribution, int64_t expert, int64_t experts) {
  switch (distribution) {
    case Distribution::zipf: return 1.0 / static_cast<double>(expert + 1);
    case Distribution::normal: {
      // The bell is symmetric; its lower half does not subtract numbers next to 1.
      const auto low = static_cast<double>(std::min(expert, experts - 1 - expert));
      const auto all = static_cast<double>(experts);
      return below((low + 1) / all) - below(low / all);
    }
    default: return 1.0;
  }
}

}  // namespace

Simulated::Simulated(const Rule& rule)
    : start_(mix(mix(rule.params.seed) ^ static_cast<uint64_t>(rule.layer_id))) {
  for (int64_t e = 0; e < rule.num_experts; ++e)
    log_p_.push_back(std::log(probability(rule.params.distribution, e, rule.num_experts)));
}

void Simulated::keys(const float* logits, double* out) const {
  uint64_t row = start_;
  for (size_t e = 0; e < log_p_.size(); ++e) {
    uint32_t bits = 0;
    std::memcpy(&bits, &logits[e], sizeof bits);
    row = mix(row ^ bits);
  }
  for (size_t e = 0; e < log_p_.size(); ++e) {
    // In (0, 1), neither end: 52 bits and a half are exact.
    const double u = (static_cast<double>(mix(row + e * kStep) >> 12) + 0.5) * 0x1p-52;
    out[e] = log_p_[e] - std::log(-std::log(u));
  }
}

}  // namespace moert::cpu
