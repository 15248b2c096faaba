// SPDX-License-Identifier: Apache-2.0
#include "capture/routes.hpp"

#include <algorithm>
#include <cstddef>

namespace moert::capture {

LoadSummary summarize_load(const std::vector<int64_t>& counts) {
  LoadSummary summary;
  for (const int64_t count : counts) {
    summary.slots += count;
    if (count == 0) ++summary.dead;
  }
  if (summary.slots == 0) return summary;
  const auto top = std::max_element(counts.begin(), counts.end());
  const auto total = static_cast<double>(summary.slots);
  summary.busiest = top - counts.begin();
  summary.busiest_share = static_cast<double>(*top) / total;
  summary.max_over_mean = static_cast<double>(*top) * static_cast<double>(counts.size()) / total;
  return summary;
}

std::vector<int64_t> count_load(const std::vector<int32_t>& ids, int64_t num_experts) {
  std::vector<int64_t> counts(static_cast<size_t>(num_experts), 0);
  for (const int32_t id : ids)
    if (id >= 0 && id < num_experts) ++counts[static_cast<size_t>(id)];
  return counts;
}

}  // namespace moert::capture
