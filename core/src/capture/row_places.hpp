// Where each token's row stands in a capture file: by sequence, then position, each once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "capture/capture_info.hpp"

namespace moert::capture {

// Memory grows with the number of sequences and of gaps in their positions, not with rows: positions
// of a sequence are kept as ranges.
class RowPlaces {
 public:
  // Any order; the same key again changes nothing. Throws Error(input) for a position that is negative or
  // INT64_MAX.
  void add(RowKey key);
  void finish();  // after the last add
  int64_t rows() const { return rows_; }
  // After finish: the row of a key; -1 if it was not added.
  int64_t place(RowKey key) const;
  // After finish: body(row, key) in order of rows.
  template <class Body>
  void for_each(Body&& body) const {
    for (const auto& [sequence, ranges] : sequences_)
      for (const Range& range : ranges)
        for (int64_t p = range.begin; p < range.end; ++p)
          body(range.first_row + (p - range.begin), RowKey{sequence, p});
  }

 private:
  struct Range {
    int64_t begin, end;     // positions
    int64_t first_row = 0;  // of `begin`
  };
  std::map<int64_t, std::vector<Range>>
      sequences_;  // ranges rising, neither touching nor overlapping
  int64_t rows_ = 0;
};

}  // namespace moert::capture
