// SPDX-License-Identifier: Apache-2.0
#include "capture/row_places.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>

#include <moert/error.hpp>

namespace moert::capture {

void RowPlaces::add(RowKey key) {
  const int64_t position = key.position;
  if (position < 0 || position == std::numeric_limits<int64_t>::max())
    throw Error(Fault::input, "position " + std::to_string(position) + " is no position of a token",
                "sequence " + std::to_string(key.sequence),
                "positions count from 0; this is a fault of the program that numbered the tokens");
  std::vector<Range>& ranges = sequences_[key.sequence];
  const auto next =
      std::upper_bound(ranges.begin(), ranges.end(), position,
                       [](int64_t value, const Range& range) { return value < range.begin; });
  const bool follows = next != ranges.begin() && std::prev(next)->end >= position;
  if (follows && std::prev(next)->end > position) return;
  const bool precedes = next != ranges.end() && next->begin == position + 1;
  ++rows_;
  if (follows) {
    std::prev(next)->end = precedes ? next->end : position + 1;
    if (precedes) ranges.erase(next);
  } else if (precedes) {
    next->begin = position;
  } else {
    ranges.insert(next, Range{position, position + 1});
  }
}

void RowPlaces::finish() {
  int64_t row = 0;
  for (auto& [sequence, ranges] : sequences_)
    for (Range& range : ranges) {
      range.first_row = row;
      row += range.end - range.begin;
    }
}

int64_t RowPlaces::place(RowKey key) const {
  const auto sequence = sequences_.find(key.sequence);
  if (sequence == sequences_.end()) return -1;
  const std::vector<Range>& ranges = sequence->second;
  const auto next =
      std::upper_bound(ranges.begin(), ranges.end(), key.position,
                       [](int64_t value, const Range& range) { return value < range.begin; });
  if (next == ranges.begin() || std::prev(next)->end <= key.position) return -1;
  const Range& range = *std::prev(next);
  return range.first_row + (key.position - range.begin);
}

}  // namespace moert::capture
