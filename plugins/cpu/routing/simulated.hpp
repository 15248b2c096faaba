// Routing that is made up, for benchmarks: experts are drawn from a distribution.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "routing_rule.hpp"

namespace moert::cpu {

// The draw of a row depends on the seed, the layer and the row's logits alone (on their bits; their
// values mean nothing here), so it can be had again and does not see the rest of the batch.
class Simulated {
 public:
  explicit Simulated(const Rule& rule);
  // One number per expert; the k largest are k draws without replacement.
  void keys(const float* logits, double* out) const;

 private:
  uint64_t start_;
  std::vector<double> log_p_;
};

}  // namespace moert::cpu
