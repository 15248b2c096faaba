// The slots of a forward, sorted by expert, and the memory that it works in.
// SPDX-License-Identifier: Apache-2.0
#include "batch.hpp"

#include <algorithm>

namespace moert::cpu::simd {
namespace {

// A worker holds what the experts give for the slots of a block in 64 columns: 2 MiB of f32 at most, but for a
// token with more slots than that.
constexpr int64_t kSlotsOfBlock = 8192;
constexpr int64_t kLeastTokens = 64;

int64_t over(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Large blocks, so that an expert has many rows in one; but enough of them that no worker is without a panel.
int64_t tokens_of_block(const BatchShape& s) {
  const int64_t most = std::max<int64_t>(1, kSlotsOfBlock / s.top_k);
  const int64_t wanted = over(4 * s.threads, s.down_panels);
  const int64_t even = over(s.tokens, wanted);
  return std::max<int64_t>(1, std::min(most, std::max(even, std::min(s.tokens, kLeastTokens))));
}

// Rows of a task: enough tasks for all threads where one expert has all rows, but no fewer rows than make a panel's
// way into the cache worth while.
int64_t rows_of_task(const BatchShape& s) {
  constexpr int64_t kLeast = 12;
  const int64_t wanted = over(2 * s.threads, s.up_panels);
  return std::clamp(over(s.tokens * s.top_k, wanted), kLeast, kRowsOfTask);
}

// The most tokens of which there can be slices.
int64_t sliced_tokens(const BatchShape& s) {
  if (s.down_panels >= 2 * s.threads) return 0;
  return std::min(s.tokens, kLeastTokens * over(4 * s.threads, s.down_panels));
}

// Cuts a run of memory into parts that begin at multiples of 64. Without memory it counts.
class Carver {
 public:
  explicit Carver(unsigned char* base) : base_(base) {}
  template <class T>
  T* take(int64_t count) {
    const auto at = bytes_;
    bytes_ += over(count * static_cast<int64_t>(sizeof(T)), 64) * 64;
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + at);
  }
  int64_t bytes() const { return bytes_; }

 private:
  unsigned char* base_;
  int64_t bytes_ = 0;
};

WorkerSpace worker_space(const BatchShape& s, int64_t block_tokens, Carver& carver) {
  WorkerSpace w{};
  w.sums = carver.take<float>(kRowsOfTask * kPanel);
  w.up_sums = carver.take<float>(kRowsOfTask * kPanel);
  w.terms = carver.take<float>(block_tokens * s.top_k * kPanel);
  w.rows = carver.take<const void*>(kRowsOfTask);
  w.scales = carver.take<const float*>(kRowsOfTask);
  w.to = carver.take<float*>(kRowsOfTask);
  w.factors = carver.take<float>(kRowsOfTask);
  w.chosen = carver.take<const float*>(s.top_k);
  return w;
}

}  // namespace

Batch::Batch(const BatchShape& shape, unsigned char* base, uint64_t* bytes)
    : shape_(shape),
      block_tokens_(tokens_of_block(shape)),
      blocks_(over(shape.tokens, block_tokens_)),
      slices_(over(2 * shape.threads, blocks_ * shape.down_panels)) {
  const int64_t slots = shape.tokens * shape.top_k;
  Carver carver(base);
  slots_ = carver.take<int64_t>(slots);
  groups_ = carver.take<Group>(slots);
  arrived_ = carver.take<int64_t>(slots);
  // Bounds that do not fall as tokens grow: past the last token of which there are slices they stay.
  sliced_ = carver.take<int64_t>(sliced_tokens(shape) * shape.down_panels);
  terms_ = carver.take<float>(sliced_tokens(shape) * shape.top_k * shape.down_panels * kPanel);
  block_groups_ = carver.take<int64_t>(shape.tokens + 1);  // a bound that does not fall
  counts_ = carver.take<int64_t>(shape.experts);
  rows_ = carver.take<unsigned char>(shape.row_bytes * shape.tokens * shape.rows_of_token);
  middle_ = carver.take<unsigned char>(shape.middle_bytes * slots);
  Carver counter(nullptr);
  worker_space(shape, block_tokens_, counter);
  worker_bytes_ = counter.bytes();
  workers_ = carver.take<unsigned char>(worker_bytes_ * shape.threads);
  if (bytes != nullptr) *bytes = static_cast<uint64_t>(carver.bytes());
}

Batch::Batch(const BatchShape& shape, void* workspace)
    : Batch(shape, static_cast<unsigned char*>(workspace), nullptr) {}

uint64_t Batch::bytes(const BatchShape& shape) {
  if (shape.tokens <= 0) return 0;
  uint64_t bytes = 0;
  Batch(shape, nullptr, &bytes);
  return bytes;
}

int64_t Batch::end_token(int64_t block) const {
  return std::min(shape_.tokens, first_token(block + 1));
}

WorkerSpace Batch::worker(int32_t index) const {
  Carver carver(workers_ + index * worker_bytes_);
  return worker_space(shape_, block_tokens_, carver);
}

void Batch::sort(const ExpertsRows& rows) {
  int64_t group = 0;
  int64_t place = 0;
  for (int64_t block = 0; block < blocks_; ++block) {
    block_groups_[block] = group;
    group = sort_block(rows, block, group, &place);
  }
  block_groups_[blocks_] = group;
  std::fill_n(arrived_, group, 0);
  if (slices_ > 1) std::fill_n(sliced_, blocks_ * shape_.down_panels, 0);
}

int64_t Batch::slice_group(int64_t block, int64_t slice) const {
  const int64_t groups = block_groups_[block + 1] - block_groups_[block];
  return block_groups_[block] + groups * slice / slices_;
}

float* Batch::terms(int64_t block, int64_t panel, const WorkerSpace& space) const {
  if (slices_ == 1) return space.terms;
  // The last block may be smaller: all before it are whole.
  const int64_t slots = (end_token(block) - first_token(block)) * shape_.top_k;
  return terms_ + (first_token(block) * shape_.top_k * shape_.down_panels + panel * slots) * kPanel;
}

// Counts, gives each expert its run of places, and deals the slots out. Returns the next free group.
int64_t Batch::sort_block(const ExpertsRows& rows, int64_t block, int64_t group, int64_t* place) {
  const int64_t k = shape_.top_k;
  const int64_t most = rows_of_task(shape_);
  std::fill_n(counts_, shape_.experts, 0);
  for (int64_t t = first_token(block); t < end_token(block); ++t)
    for (int64_t j = 0; j < k; ++j)
      if (const int32_t id = rows.ids.integer(t, j); id >= 0) ++counts_[id];
  for (int64_t e = 0; e < shape_.experts; ++e) {
    int64_t left = counts_[e];
    counts_[e] = *place;  // from here on: where the expert's next slot goes
    for (; left > 0; left -= groups_[group - 1].rows) {
      groups_[group] = {*place, static_cast<int32_t>(std::min(left, most)),
                        static_cast<int32_t>(e)};
      *place += groups_[group++].rows;
    }
  }
  for (int64_t t = first_token(block); t < end_token(block); ++t)
    for (int64_t j = 0; j < k; ++j)
      if (const int32_t id = rows.ids.integer(t, j); id >= 0) slots_[counts_[id]++] = t * k + j;
  return group;
}

}  // namespace moert::cpu::simd
