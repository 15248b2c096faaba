// The slots of a forward, sorted by expert, and the memory that it works in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "experts_rules.hpp"
#include "kernels.hpp"

namespace moert::cpu::simd {

// Most rows that one task multiplies with a panel: enough that the panel's way into the cache does not count.
inline constexpr int64_t kRowsOfTask = 192;

// What the sizes of a forward follow from.
struct BatchShape {
  int64_t tokens, top_k, experts, threads;
  int64_t up_panels, down_panels;
  int64_t row_bytes;      // of a copy of a row, a multiple of 64: there is always room for them
  int64_t rows_of_token;  // copies: one, one for each slot, or two
  int64_t middle_bytes;   // of a row of the middle
};

// Rows of one expert in one block of tokens, at most kRowsOfTask, fewer where threads would be without: slots [first,
// first + rows) of the order.
struct Group {
  int64_t first;
  int32_t rows;
  int32_t expert;
};

// What each worker has for itself.
struct WorkerSpace {
  float* sums;           // [kRowsOfTask][64]
  float* up_sums;        // [kRowsOfTask][64], of rows that differ from those of the gate
  float* terms;          // [slots of a block][64]
  const void** rows;     // [kRowsOfTask]
  const float** scales;  // [kRowsOfTask], of rows of codes
  float** to;            // [kRowsOfTask]
  float* factors;        // [kRowsOfTask]
  const float** chosen;  // [k]
};

// Tokens are cut into blocks; in a block, slots (token * k + j) stand in order of their expert, then of their
// number. So the order depends on ids alone, and a row's place in it changes nothing about its numbers.
class Batch {
 public:
  // Bytes of the workspace; does not fall as tokens grow.
  static uint64_t bytes(const BatchShape& shape);
  // In a workspace of at least that size, aligned to 64 bytes.
  Batch(const BatchShape& shape, void* workspace);

  void sort(const ExpertsRows& rows);

  const BatchShape& shape() const { return shape_; }
  int64_t blocks() const { return blocks_; }
  int64_t groups() const { return block_groups_[blocks_]; }
  int64_t first_token(int64_t block) const { return block * block_tokens_; }
  int64_t end_token(int64_t block) const;
  const Group& group(int64_t index) const { return groups_[index]; }
  int64_t slot(int64_t place) const { return slots_[place]; }

  // Panels of down are cut into so many slices of a block's groups, where there are too few panels for the threads.
  int64_t slices() const { return slices_; }
  // Groups [slice_group(b, s), slice_group(b, s + 1)) are those of slice s.
  int64_t slice_group(int64_t block, int64_t slice) const;
  // What the experts give for the block's slots in the panel's columns: of all slices together, or the worker's own
  // where there is one.
  float* terms(int64_t block, int64_t panel, const WorkerSpace& space) const;

  // True for the last caller of all panels of gate and up of a group, or of all slices of a panel of down: what the
  // others did before their calls is done.
  bool last_up(int64_t group) const { return last_of(arrived_ + group, shape_.up_panels); }
  bool last_slice(int64_t block, int64_t panel) const {
    return last_of(sliced_ + block * shape_.down_panels + panel, slices_);
  }

  unsigned char* row(int64_t index) const { return rows_ + index * shape_.row_bytes; }
  unsigned char* middle(int64_t place) const { return middle_ + place * shape_.middle_bytes; }
  WorkerSpace worker(int32_t index) const;

 private:
  static bool last_of(int64_t* count, int64_t all) {
    return std::atomic_ref(*count).fetch_add(1, std::memory_order_acq_rel) == all - 1;
  }
  Batch(const BatchShape& shape, unsigned char* base, uint64_t* bytes);
  int64_t sort_block(const ExpertsRows& rows, int64_t block, int64_t group, int64_t* place);

  BatchShape shape_;
  int64_t block_tokens_, blocks_, slices_;
  int64_t* slots_;
  Group* groups_;
  int64_t* arrived_;       // [groups]
  int64_t* sliced_;        // [blocks][down_panels] where there are slices
  float* terms_;           // [blocks][down_panels][slots of a block][64] where there are slices
  int64_t* block_groups_;  // [blocks + 1]
  int64_t* counts_;        // [experts]
  unsigned char* rows_;
  unsigned char* middle_;
  unsigned char* workers_;
  int64_t worker_bytes_;
};

}  // namespace moert::cpu::simd
