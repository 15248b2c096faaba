// A stable sort of slots by expert, by counting. Every warp counts a run of slots of its own, so that places follow
// from sums alone: nothing depends on who comes first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../experts/plan.hpp"
#include "fault.cuh"

namespace moert::gpu {

// The kernels' part of PlanArgs.
struct PlanWork {
  StridedSlots<int32_t> ids;
  PlanMemory memory;
  Fault* fault;
  int64_t first_row, slots;
  int64_t block_slots;  // of one block, whole warps' runs
  int32_t top_k, experts, item_rows;
};

MOERT_DEVICE int count_bits(uint64_t bits) {
  bits -= bits >> 1 & 0x5555555555555555u;
  bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
  bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  return static_cast<int>(bits * 0x0101010101010101u >> 56);
}

// A run of slots, [begin, end), and the counts of the warp that walks through it.
struct SlotRun {
  int64_t begin, end;
  int32_t* counts;
};

// The run of this warp: block x of the grid has `block_slots` slots, its warps equal shares of them.
template <int W>
MOERT_DEVICE SlotRun run_of_warp(const PlanWork& work) {
  const int warps = threads() / W, warp = thread() / W;
  const int64_t share = work.block_slots / warps;
  const int64_t begin = block_x() * work.block_slots + warp * share;
  const int64_t end = begin + share < work.slots ? begin + share : work.slots;
  return {begin, end,
          reinterpret_cast<int32_t*>(shared()) + static_cast<int64_t>(warp) * work.experts};
}

// The expert of a slot, or -1.
MOERT_DEVICE int32_t expert_of(const PlanWork& work, int64_t slot, bool reports) {
  const int64_t row = slot / work.top_k, j = slot % work.top_k;
  const int32_t id = work.ids.data[row * work.ids.row_stride + j * work.ids.col_stride];
  if (id >= 0 && id < work.experts) return id;
  if (id != -1 && reports) report_fault(work.fault, FaultCode::expert_id, work.first_row + row, id);
  return -1;
}

// Lanes that have the same expert as this one.
template <int W>
MOERT_DEVICE uint64_t lanes_alike(int32_t expert, int32_t experts) {
  uint64_t alike = ballot<W>(expert >= 0);
  for (int bit = 0; (experts - 1) >> bit != 0; ++bit) {
    const bool set = (expert >> bit & 1) != 0;
    const uint64_t all = ballot<W>(set);
    alike &= set ? all : ~all;
  }
  return alike;
}

// visit(slot, expert, rank): rank counts the same expert's slots since the run's begin, beginning at counts[expert],
// which goes up with them.
template <int W, class Visit>
MOERT_DEVICE void walk(const PlanWork& work, const SlotRun& run, bool reports, Visit visit) {
  const int lane = thread() % W;
  for (int64_t first = run.begin; first < run.end; first += W) {
    const int64_t slot = first + lane;
    const int32_t expert = slot < run.end ? expert_of(work, slot, reports) : -1;
    const uint64_t alike = lanes_alike<W>(expert, work.experts);
    const int before = count_bits(alike & ((uint64_t{1} << lane) - 1));
    const int32_t reached = expert >= 0 ? run.counts[expert] : 0;
    sync_warp<W>();
    if (expert >= 0 && before == 0) run.counts[expert] = reached + count_bits(alike);
    sync_warp<W>();
    if (slot < run.end) visit(slot, expert, reached + before);
  }
}

// Counts of every expert in every warp's run; those of the whole block, in `totals` if it is there.
template <int W>
MOERT_DEVICE void count_block(const PlanWork& work, int32_t* totals) {
  const int warps = threads() / W;
  auto* counts = reinterpret_cast<int32_t*>(shared());
  for (int i = thread(); i < warps * work.experts; i += threads()) counts[i] = 0;
  sync_block();
  walk<W>(work, run_of_warp<W>(work), true, [](int64_t, int32_t, int32_t) {});
  sync_block();
  if (totals == nullptr) return;
  for (int e = thread(); e < work.experts; e += threads()) {
    int32_t sum = 0;
    for (int warp = 0; warp < warps; ++warp) sum += counts[warp * work.experts + e];
    totals[e] = sum;
  }
}

// From the counts of warps to the position at which each warp's first slot of an expert comes; `first` has the block's.
template <int W>
MOERT_DEVICE void place_warps(const PlanWork& work, const int32_t* first) {
  const int warps = threads() / W;
  auto* counts = reinterpret_cast<int32_t*>(shared());
  for (int e = thread(); e < work.experts; e += threads()) {
    int32_t position = first[e];
    for (int warp = 0; warp < warps; ++warp) {
      const int32_t count = counts[warp * work.experts + e];
      counts[warp * work.experts + e] = position;
      position += count;
    }
  }
  sync_block();
}

template <int W>
MOERT_DEVICE void scatter_block(const PlanWork& work) {
  const PlanView& view = work.memory.view;
  walk<W>(work, run_of_warp<W>(work), false, [&](int64_t slot, int32_t expert, int32_t position) {
    view.places[slot] = expert >= 0 ? position : -1;
    if (expert >= 0) view.slots[position] = static_cast<int32_t>(slot);
  });
}

// The sum of `value` in all threads before this one, and in all threads. `sums` has room for a number of each warp and
// one more.
template <int W>
MOERT_DEVICE int32_t sum_before(int32_t value, int32_t* sums, int32_t* total) {
  const int lane = thread() % W, warp = thread() / W, warps = threads() / W;
  int32_t sum = value;
  MOERT_UNROLL
  for (int delta = 1; delta < W; delta *= 2) {
    const int32_t below = shuffle_up<W>(sum, delta);
    if (lane >= delta) sum += below;
  }
  if (lane == W - 1) sums[warp] = sum;
  sync_block();
  if (thread() == 0) {
    int32_t all = 0;
    for (int w = 0; w < warps; ++w) {
      const int32_t own = sums[w];
      sums[w] = all;
      all += own;
    }
    sums[warps] = all;
  }
  sync_block();
  const int32_t before = sums[warp] + sum - value;
  *total = sums[warps];
  sync_block();
  return before;
}

// From counts [blocks, experts] to the position of each block's first slot of an expert, to the experts' offsets, and
// to the number of their first item. One block; `sums` as above.
template <int W>
MOERT_DEVICE void scan_experts(const PlanWork& work, int32_t* counts, int blocks, int32_t* sums) {
  const PlanView& view = work.memory.view;
  const int experts = work.experts;
  int32_t position = 0, item = 0;
  for (int base = 0; base < experts; base += threads()) {
    const int e = base + thread();
    int32_t count = 0;
    for (int b = 0; e < experts && b < blocks; ++b)
      count += counts[static_cast<int64_t>(b) * experts + e];
    int32_t all = 0, all_items = 0;
    const int32_t items = (count + work.item_rows - 1) / work.item_rows;
    int32_t first = position + sum_before<W>(count, sums, &all);
    const int32_t first_item = item + sum_before<W>(items, sums, &all_items);
    if (e < experts) {
      view.offsets[e] = first;
      work.memory.first_items[e] = first_item;
    }
    for (int b = 0; e < experts && b < blocks; ++b) {
      int32_t& own = counts[static_cast<int64_t>(b) * experts + e];
      const int32_t here = own;
      own = first;
      first += here;
    }
    position += all;
    item += all_items;
  }
  if (thread() == 0) {
    view.offsets[experts] = position;
    *view.n_items = item;
  }
}

// The items of experts `first`, first + step, ..., one warp each.
template <int W>
MOERT_DEVICE void list_items(const PlanWork& work, int first, int step) {
  const PlanView& view = work.memory.view;
  for (int e = first; e < work.experts; e += step) {
    const int32_t begin = view.offsets[e], end = view.offsets[e + 1];
    Item* items = view.items + work.memory.first_items[e];
    for (int i = thread() % W; begin + static_cast<int64_t>(i) * work.item_rows < end; i += W) {
      const int32_t at = begin + i * work.item_rows, left = end - at;
      items[i] = {e, at, left < work.item_rows ? left : work.item_rows, 0};
    }
  }
}

// All of it, for a batch of one block.
template <int W>
MOERT_KERNEL MOERT_BOUNDS(512, 1) void plan_in_one(PlanWork work) {
  int32_t* counts = work.memory.counts;
  auto* sums =
      reinterpret_cast<int32_t*>(shared()) + static_cast<int64_t>(threads() / W) * work.experts;
  count_block<W>(work, counts);
  sync_block();
  scan_experts<W>(work, counts, 1, sums);
  sync_block();
  place_warps<W>(work, counts);
  scatter_block<W>(work);
  list_items<W>(work, thread() / W, threads() / W);
}

// The three launches of a larger batch.
template <int W>
MOERT_KERNEL MOERT_BOUNDS(512, 1) void plan_count(PlanWork work) {
  count_block<W>(work, work.memory.counts + static_cast<int64_t>(block_x()) * work.experts);
}

template <int W>
MOERT_KERNEL MOERT_BOUNDS(1024, 1) void plan_scan(PlanWork work, int blocks) {
  scan_experts<W>(work, work.memory.counts, blocks, reinterpret_cast<int32_t*>(shared()));
}

template <int W>
MOERT_KERNEL MOERT_BOUNDS(512, 1) void plan_scatter(PlanWork work) {
  count_block<W>(work, nullptr);
  place_warps<W>(work, work.memory.counts + static_cast<int64_t>(block_x()) * work.experts);
  scatter_block<W>(work);
  const int warps = threads() / W;
  list_items<W>(work, block_x() * warps + thread() / W, blocks_x() * warps);
}

}  // namespace moert::gpu
