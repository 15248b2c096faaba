// The slots of a forward, sorted by expert, and the memory that it works in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "experts_rules.hpp"
#include "kernels.hpp"

namespace moert::cpu::simd {

// Most rows that one task multiplies with a panel: enough that the panel's way into the cache does not count.
inline constexpr int64_t kRowsOfTask = 192;

// What the sizes of a forward follow from.
struct BatchShape {
  int64_t tokens, top_k, experts, threads;
  int64_t down_panels;
  int64_t row_bytes;     // of a copy of a row, a multiple of 64: there is always room for them
  bool row_of_slot;      // a copy for each slot, not for each token
  int64_t middle_bytes;  // of a row of the middle
};

// Rows of one expert in one block of tokens, at most kRowsOfTask: slots [first, first + rows) of the order.
struct Group {
  int64_t first;
  int32_t rows;
  int32_t expert;
};

// What each worker has for itself.
struct WorkerSpace {
  float* sums;           // [kRowsOfTask][64]
  float* terms;          // [slots of a block][64]
  const void** rows;     // [kRowsOfTask]
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
  // Groups [first_group(b), first_group(b + 1)) are those of block b.
  int64_t first_group(int64_t block) const { return block_groups_[block]; }
  const Group& group(int64_t index) const { return groups_[index]; }
  int64_t slot(int64_t place) const { return slots_[place]; }

  unsigned char* row(int64_t index) const { return rows_ + index * shape_.row_bytes; }
  unsigned char* middle(int64_t place) const { return middle_ + place * shape_.middle_bytes; }
  WorkerSpace worker(int32_t index) const;

 private:
  Batch(const BatchShape& shape, unsigned char* base, uint64_t* bytes);
  int64_t sort_block(const ExpertsRows& rows, int64_t block, int64_t group, int64_t* place);

  BatchShape shape_;
  int64_t block_tokens_, blocks_;
  int64_t* slots_;
  Group* groups_;
  int64_t* block_groups_;  // [blocks + 1]
  int64_t* counts_;        // [experts]
  unsigned char* rows_;
  unsigned char* middle_;
  unsigned char* workers_;
  int64_t worker_bytes_;
};

}  // namespace moert::cpu::simd
