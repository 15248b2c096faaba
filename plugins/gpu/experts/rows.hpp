// Rows on their way into a matrix product that cannot read them where they are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runtime.hpp"
#include "row_rule.hpp"
#include "strided.hpp"
#include "views.hpp"

namespace moert::gpu {

// Rows become rows of `padded` numbers, zeros behind their own columns. Row r of the result is row r of `from`, or with
// a plan that of the slot at position r, of the positions that there are.
struct RowsArgs {
  StridedRows from;
  int64_t rows = 0, cols = 0;
  int64_t padded = 0;  // a multiple of 8
  RowRule rule;

  // By position: `rows` are the most. Without slots a position is the row of `from` itself.
  bool by_position = false;
  PlanView plan;
  int32_t top_k = 1, experts = 1;
  StridedSlots<float> weights;          // data NULL: none; else rows times their slot's weight
  const float* input_scales = nullptr;  // [experts], where the rule asks for them

  // As codes of bf16 with `groups` scales a row, or, without `scales`, as the numbers that remain.
  void* to = nullptr;
  Element element = Element::f32;
  float* scales = nullptr;  // [rows, groups]
  int32_t groups = 0;
};

// Enqueues one launch. Rows are rounded to f32 after the weight, and then quantised. `to` may be `from` where both are
// f32 rows of one stride. `warp` is the device's.
void launch_rows(const RowsArgs& args, int32_t warp, Stream stream);

// Scales of a row of that width by that rule; a group that is all padding has one too.
inline int32_t row_groups(const RowRule& rule, int64_t padded) {
  return rule.group == 0 ? 1 : static_cast<int32_t>((padded + rule.group - 1) / rule.group);
}

// The same arithmetic on the host, in place: what a quant method that means the same by its word must give.
void quantise_row(const RowRule& rule, float input_scale, float* row, int64_t cols);

}  // namespace moert::gpu
