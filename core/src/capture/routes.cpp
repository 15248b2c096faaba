// SPDX-License-Identifier: Apache-2.0
#include "capture/routes.hpp"

#include <algorithm>
#include <cstddef>

namespace moert::capture {

NarrowIds narrow_ids(const LayerRoutes& routes) {
  NarrowIds narrow;
  narrow.bytes_per_id = routes.num_experts <= 256 ? 1 : routes.num_experts <= 65536 ? 2 : 4;
  const auto width = static_cast<size_t>(narrow.bytes_per_id);
  const auto k = static_cast<size_t>(routes.top_k);
  narrow.data.assign(routes.ids.size() * width, 0);
  for (size_t row = 0; row < routes.present.size(); ++row) {
    if (routes.present[row] == 0) continue;
    for (size_t i = row * k; i < (row + 1) * k; ++i)
      for (size_t byte = 0; byte < width; ++byte)
        narrow.data[i * width + byte] =
            static_cast<uint8_t>(static_cast<uint32_t>(routes.ids[i]) >> (8 * byte));
  }
  return narrow;
}

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
