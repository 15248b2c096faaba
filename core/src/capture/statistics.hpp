// What a capture says of each layer: load, entropy, dead experts, experts chosen together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "capture/capture_file.hpp"
#include "capture/routes.hpp"

namespace moert::capture {

struct ExpertPair {
  int64_t a = 0, b = 0;  // a < b
  int64_t rows = 0;      // in which both were chosen
  double lift =
      0;  // rows / what independent choices of the same load would give: rows of a times rows of b
          // / all rows
};

struct LayerStatistics {
  int64_t layer_id = 0, num_experts = 0, top_k = 0;
  int64_t rows = 0, absent = 0;  // present and absent decisions
  std::vector<int64_t> counts;   // [num_experts] tokens of each expert
  LoadSummary load;
  double entropy = 0;                 // bits, of the experts' shares of the slots
  double even_entropy = 0;            // bits if all experts had the same share: log2(num_experts)
  std::vector<ExpertPair> pairs;      // most frequent first; ties by (a, b)
  std::optional<double> mean_margin;  // of those that are finite
  int64_t near_ties = 0;              // rows whose margin is from 0 to below the limit
};

struct StatisticsOptions {
  size_t pairs = 5;  // 0: pairs are not counted
  double near_tie = 1e-3;
  std::optional<int64_t> sequence;  // only this one
};

// A near tie: the margin is known, and from 0 to below the limit. Below 0 the experts were forced, and others
// would have been chosen.
inline bool is_near_tie(float margin, double limit) {
  return margin >= 0 && static_cast<double>(margin) < limit;
}

std::vector<LayerStatistics> statistics(const CaptureFile& file,
                                        const StatisticsOptions& options = {});

}  // namespace moert::capture
