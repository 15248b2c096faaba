// How evenly tokens are spread over experts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace moert::capture {

// How evenly `counts` (tokens per expert) are spread.
struct LoadSummary {
  int64_t slots = 0;         // sum of counts
  int64_t busiest = -1;      // lowest expert with the largest count; -1 without any slot
  double busiest_share = 0;  // its count / slots
  double max_over_mean = 0;  // its count / (slots / experts)
  int64_t dead = 0;          // experts without a token
};
LoadSummary summarize_load(const std::vector<int64_t>& counts);

// Tokens per expert, from ids; -1 is a padded row and does not count.
std::vector<int64_t> count_load(const std::vector<int32_t>& ids, int64_t num_experts);

}  // namespace moert::capture
