// Sizes of layers to measure with: those of published models, or any.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moert::tool {

struct BenchShape {
  std::string name;
  int64_t hidden, intermediate, experts, top_k;
  std::string activation = "silu";
  double alpha = 0, beta = 0, limit = 0;
  bool biased = false;

  double weights_of_expert() const {
    return 3.0 * static_cast<double>(hidden) * static_cast<double>(intermediate);
  }
};

// "olmoe", or "64x32x8x2" for hidden, intermediate, experts and experts of a token (silu, no biases). Throws
// Error(usage) with the nearest name.
BenchShape bench_shape(const std::string& word);
// The names, for help and messages.
std::vector<std::string> bench_shape_names();

}  // namespace moert::tool
