// A batch sorted by expert: the launches that do it, and the memory that they need.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../faults.hpp"
#include "../runtime.hpp"
#include "arena.hpp"
#include "strided.hpp"
#include "views.hpp"

namespace moert::gpu {

constexpr int64_t kMostExperts = 8192;  // whose counts fit one block's memory
constexpr int64_t kMostSlots = 131072;  // of one plan; larger batches go through in parts
constexpr int64_t kLeastItemRows = 8;   // memory is made for items of that many rows at least

struct PlanSizes {
  int64_t tokens = 0, top_k = 0, experts = 0;
  int64_t slots() const { return tokens * top_k; }
};

// What the launches write, and what they hand to each other.
struct PlanMemory {
  PlanView view;
  int32_t* counts = nullptr;       // [blocks, experts], then first positions
  int32_t* first_items = nullptr;  // [experts]
  // Takes memory; less for fewer tokens, never more.
  static PlanMemory of(Arena& arena, const PlanSizes& sizes);
};

struct PlanArgs {
  PlanSizes sizes;
  StridedSlots<int32_t> ids;
  int32_t item_rows = 0;  // at least kLeastItemRows
  PlanMemory memory;
  Fault* fault = nullptr;  // for ids that are neither -1 nor below `experts`, which count as -1
  int64_t first_row = 0;   // what the fault counts from
};

// Enqueues one launch for a small batch, three for a large one. `warp` is the device's. The result does not depend on
// how it is cut. At least one token.
void launch_plan(const PlanArgs& args, int32_t warp, Stream stream);

// The plan of one expert that every token takes: a position is a token. Slots and places are not written.
void launch_plan_of_one(int64_t tokens, int32_t item_rows, const PlanView& view, Stream stream);

}  // namespace moert::gpu
