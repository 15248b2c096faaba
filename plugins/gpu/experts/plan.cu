// A batch sorted by expert: the launches that do it, and the memory that they need.
// SPDX-License-Identifier: Apache-2.0
#include "plan.hpp"

#include "../kernels/plan.cuh"
#include "../kernels/widths.cuh"

namespace moert::gpu {
namespace {

constexpr int64_t kSmall = 4096;        // slots that one block sorts by itself
constexpr int64_t kMostBlocks = 256;    // so that the scan over blocks stays short
constexpr int64_t kSharedInts = 12288;  // 48 KiB, which every device gives
constexpr int32_t kMostThreads = 512;

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t ratio_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t blocks_of(int64_t slots) {
  return slots <= kSmall ? 1 : least(ratio_up(slots, kSmall), kMostBlocks);
}

// As many warps as have room for the counts of all experts, and something to do: slots, or experts.
int64_t warps_of(int64_t experts, int64_t block_slots, int32_t warp) {
  const int64_t fit = least((kSharedInts - kMostThreads) / experts, kMostThreads / warp);
  return least(ratio_up(experts < block_slots ? block_slots : experts, warp), fit);
}

// One expert that every token takes.
MOERT_KERNEL void plan_of_one(PlanView view, int64_t tokens, int32_t item_rows) {
  const int64_t items = (tokens + item_rows - 1) / item_rows;
  const int64_t step = static_cast<int64_t>(blocks_x()) * threads();
  for (int64_t i = static_cast<int64_t>(block_x()) * threads() + thread(); i < items; i += step) {
    const int64_t first = i * item_rows, left = tokens - first;
    view.items[i] = {0, static_cast<int32_t>(first),
                     static_cast<int32_t>(left < item_rows ? left : item_rows), 0};
  }
  if (block_x() == 0 && thread() == 0) {
    view.offsets[0] = 0;
    view.offsets[1] = static_cast<int32_t>(tokens);
    *view.n_items = static_cast<int32_t>(items);
  }
}

}  // namespace

PlanMemory PlanMemory::of(Arena& arena, const PlanSizes& sizes) {
  const int64_t slots = sizes.slots(), experts = sizes.experts;
  PlanMemory memory;
  memory.view.offsets = arena.take<int32_t>(experts + 1);
  memory.view.slots = arena.take<int32_t>(slots);
  memory.view.places = arena.take<int32_t>(slots);
  memory.view.items = arena.take<Item>(max_items(slots, experts, kLeastItemRows));
  memory.view.n_items = arena.take<int32_t>(1);
  memory.counts = arena.take<int32_t>(blocks_of(slots) * experts);
  memory.first_items = arena.take<int32_t>(experts);
  return memory;
}

void launch_plan(const PlanArgs& args, int32_t warp, Stream stream) {
  const int64_t slots = args.sizes.slots(), experts = args.sizes.experts, blocks = blocks_of(slots);
  const int64_t warps = warps_of(experts, ratio_up(slots, blocks), warp);
  const int64_t share = ratio_up(slots, blocks * warps * warp) * warp;
  const PlanWork work = {args.ids,
                         args.memory,
                         args.fault,
                         args.first_row,
                         slots,
                         share * warps,
                         static_cast<int32_t>(args.sizes.top_k),
                         static_cast<int32_t>(experts),
                         args.item_rows};
  const auto threads = static_cast<int>(warps * warp);
  const auto bytes = static_cast<uint32_t>((warps * experts + warps + 1) * 4);
  with_warp(warp, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    if (blocks == 1) return launch<plan_in_one<kWidth>>(Grid{}, threads, bytes, stream, work);
    const Grid grid = {static_cast<unsigned>(blocks), 1};
    launch<plan_count<kWidth>>(grid, threads, bytes, stream, work);
    const auto scan_threads = static_cast<int>(least(ratio_up(experts, warp) * warp, 1024));
    launch<plan_scan<kWidth>>(Grid{}, scan_threads, uint32_t{4 * 64}, stream, work,
                              static_cast<int>(blocks));
    launch<plan_scatter<kWidth>>(grid, threads, bytes, stream, work);
  });
}

void launch_plan_of_one(int64_t tokens, int32_t item_rows, const PlanView& view, Stream stream) {
  constexpr int kThreads = 128;
  const int64_t blocks = least(ratio_up(ratio_up(tokens, item_rows), kThreads), 64);
  launch<plan_of_one>(Grid{static_cast<unsigned>(blocks), 1}, kThreads, uint32_t{0}, stream, view,
                      tokens, item_rows);
}

}  // namespace moert::gpu
