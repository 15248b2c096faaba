// Which recorded rows are pending, and what committing and dropping take of them: one rule for all capturers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace moert {

// In order of their arrival, and committed in that order; those of the open step at the end. `Place` says where a row
// lies. Callbacks: expect(count) before rows are committed, may throw, and they stay pending; keep(row), as often;
// give_back(place) of a row that is not wanted any more. The last two do not throw.
template <class Place>
class PendingRows {
 public:
  struct Row {
    int64_t sequence, position;
    Place place;
  };

  size_t size() const { return rows_.size(); }
  // The open step begins, with up to `count` rows that push adds without allocating.
  void open(size_t count) {
    if (rows_.capacity() - rows_.size() < count)
      rows_.reserve(std::max(rows_.size() + count, 2 * rows_.capacity()));
    first_ = rows_.size();
  }
  void push(const Row& row) { rows_.push_back(row); }
  // Row `t` of the open step.
  const Row& of_step(size_t t) const { return rows_[first_ + t]; }

  // Both commit and say whether there was anything to commit.
  // Rows of earlier steps with a key of the open one go too, before it: committed later, they would count instead.
  template <class Expect, class Keep>
  bool commit_step(Expect&& expect, Keep&& keep) {
    if (first_ == 0) return commit_if([](const Row&) { return true; }, expect, keep);
    std::vector<std::pair<int64_t, int64_t>> keys;
    for (size_t i = first_; i < rows_.size(); ++i)
      keys.emplace_back(rows_[i].sequence, rows_[i].position);
    std::sort(keys.begin(), keys.end());
    return commit_if(
        [&](const Row& row) {
          return std::binary_search(keys.begin(), keys.end(),
                                    std::pair(row.sequence, row.position));
        },
        expect, keep);
  }
  template <class Expect, class Keep>
  bool commit(int64_t sequence, int64_t position, Expect&& expect, Keep&& keep) {
    return commit_if(
        [&](const Row& row) {
          return row.sequence == sequence && (row.position < position || position == INT64_MAX);
        },
        expect, keep);
  }
  template <class GiveBack>
  void drop(int64_t sequence, int64_t position, GiveBack&& give_back) {
    take_if([&](const Row& row) { return row.sequence == sequence && row.position >= position; },
            [&](const Row& row) { give_back(row.place); });
  }
  // The open step is gone.
  template <class GiveBack>
  void abort(GiveBack&& give_back) {
    for (size_t i = first_; i < rows_.size(); ++i) give_back(rows_[i].place);
    rows_.resize(first_);
  }

 private:
  template <class Wanted, class Expect, class Keep>
  bool commit_if(Wanted&& wanted, Expect&& expect, Keep&& keep) {
    const auto count = std::count_if(rows_.begin(), rows_.end(), wanted);
    if (count == 0) return false;
    expect(static_cast<size_t>(count));
    take_if(wanted, keep);
    return true;
  }
  template <class Wanted, class Take>
  void take_if(Wanted&& wanted, Take&& take) {
    size_t stay = 0;
    for (const Row& row : rows_) {
      if (wanted(row))
        take(row);
      else
        rows_[stay++] = row;
    }
    rows_.resize(stay);
  }

  std::vector<Row> rows_;
  size_t first_ = 0;
};

}  // namespace moert
