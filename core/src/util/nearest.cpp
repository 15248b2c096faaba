// Edit distance and the texts made from it.
// SPDX-License-Identifier: Apache-2.0
#include "util/nearest.hpp"

#include <algorithm>
#include <numeric>

namespace moert {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> two_above(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    two_above.swap(above);
    above.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({row[j - 1] + 1, above[j] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], two_above[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& names,
                                       size_t most) {
  const size_t limit = std::max<size_t>(2, name.size() / 2);
  std::vector<std::pair<size_t, std::string>> found;
  for (const std::string& candidate : names) {
    const size_t lengths = candidate.size() > name.size() ? candidate.size() - name.size()
                                                          : name.size() - candidate.size();
    if (lengths > limit) continue;
    const size_t distance = edit_distance(name, candidate);
    if (distance <= limit) found.emplace_back(distance, candidate);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> result;
  for (size_t i = 0; i < found.size() && i < most; ++i) result.push_back(found[i].second);
  return result;
}

std::string suggestion(std::string_view name, const std::vector<std::string>& names) {
  const std::vector<std::string> near = nearest_names(name, names);
  if (!near.empty()) return "did you mean '" + near.front() + "'?";
  constexpr size_t kShown = 12;
  std::vector<std::string> shown(names.begin(), names.begin() + std::min(names.size(), kShown));
  if (names.size() > kShown) shown.emplace_back("...");
  return "known are: " + joined(shown);
}

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

}  // namespace moert
