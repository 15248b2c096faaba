// Captured routing of one layer as columns, and what can be said of it: load, imbalance.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace moert::capture {

// Rows in order of arrival. Where present[r] is 0 nothing was recorded: ids and weights of that row
// mean nothing and stay zero.
struct LayerRoutes {
  int64_t layer_id = 0;
  int64_t num_experts = 0, top_k = 0;
  std::vector<int32_t> ids;      // [rows, top_k] logical
  std::vector<float> weights;    // [rows, top_k] or empty
  std::vector<float> margins;    // [rows] or empty
  std::vector<uint8_t> present;  // [rows]
};

// Ids in the narrowest type that holds every expert's number: one byte each up to 256 experts, two
// up to 65,536, else four (little endian, unsigned). Absent rows are zero: `present` alone says which
// rows are data.
struct NarrowIds {
  int bytes_per_id = 1;
  std::vector<uint8_t> data;
};
NarrowIds narrow_ids(const LayerRoutes& routes);

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
