// Rows of any type and stride become padded rows of a matrix product: as they are, times a weight, quantised.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../experts/rows.hpp"
#include "quantise.cuh"

namespace moert::gpu {

// Where the row of this block comes from.
struct RowOrigin {
  int64_t row;   // of the source; -1: there is none
  float factor;  // what it is multiplied by
  float given;   // its weight's input scale
};

// The expert whose positions `position` is one of.
MOERT_DEVICE int32_t expert_at(const PlanView& plan, int32_t experts, int64_t position) {
  int32_t low = 0, high = experts - 1;  // the last expert that begins at or before the position
  while (low < high) {
    const int32_t middle = (low + high + 1) / 2;
    if (plan.offsets[middle] <= position)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

MOERT_DEVICE RowOrigin origin_of(const RowsArgs& args, int64_t row) {
  RowOrigin origin = {row, 1.0f, 1.0f};
  if (!args.by_position) {
    if (args.input_scales != nullptr) origin.given = args.input_scales[0];
    return origin;
  }
  if (row >= args.plan.offsets[args.experts]) return {-1, 1.0f, 1.0f};
  if (args.plan.slots != nullptr) {
    const int32_t slot = args.plan.slots[row];
    origin.row = slot / args.top_k;
    if (args.weights.data != nullptr)
      origin.factor = args.weights.data[origin.row * args.weights.row_stride +
                                        slot % args.top_k * args.weights.col_stride];
  }
  if (args.input_scales != nullptr)
    origin.given = args.input_scales[expert_at(args.plan, args.experts, row)];
  return origin;
}

template <Number N>
MOERT_DEVICE void read_scaled(const SourceRow<N>& row, int64_t first, float factor, bool scaled,
                              float (&x)[kEight]) {
  row.read(first, x);
  MOERT_UNROLL
  for (int i = 0; i < kEight; ++i) x[i] = scaled ? x[i] * factor : x[i];
}

// Numbers [first, first + count) of the result's row; whole eights where `aligned`.
MOERT_DEVICE void write_row(const RowsArgs& args, int64_t row, int64_t first, int64_t count,
                            bool aligned, const float (&x)[kEight]) {
  const int64_t at = row * args.padded + first;
  if (args.element == Element::bf16)
    write_numbers<Number::bf16>(static_cast<uint16_t*>(args.to) + at, 1, aligned, count, x);
  else
    write_numbers<Number::f32>(static_cast<float*>(args.to) + at, 1, aligned, count, x);
}

// One block for a row.
template <Number N>
MOERT_KERNEL MOERT_BOUNDS(256, 1) void convert_rows(int64_t first_row, RowsArgs args) {
  const int64_t row = first_row + block_x();
  const RowOrigin origin = origin_of(args, row);
  if (origin.row < 0) return;
  const SourceRow<N> source = SourceRow<N>::of(args.from, origin.row, args.cols);
  const bool scaled = args.weights.data != nullptr;
  for (int64_t c = thread() * kEight; c < args.padded;
       c += static_cast<int64_t>(threads()) * kEight) {
    float x[kEight];
    read_scaled<N>(source, c, origin.factor, scaled, x);
    write_row(args, row, c, kEight, true, x);
  }
}

// The larger of two magnitudes' bits, of what is finite.
MOERT_DEVICE uint32_t more_of(uint32_t most, float x) {
  const uint32_t bits = bits_of(x) & 0x7fffffffu;
  return bits < 0x7f800000u && bits > most ? bits : most;
}

template <int W>
MOERT_DEVICE uint32_t most_of_lanes(uint32_t most, int lanes) {
  for (int mask = lanes / 2; mask > 0; mask /= 2) {
    const uint32_t other = shuffle_xor<W>(most, mask);
    most = other > most ? other : most;
  }
  return most;
}

// `count` numbers of one scale: the codes, or what remains.
MOERT_DEVICE void write_quantised(const RowsArgs& args, const CodeScale& by, int64_t row,
                                  int64_t first, int64_t count, bool aligned, float (&x)[kEight]) {
  MOERT_UNROLL
  for (int i = 0; i < kEight; ++i)
    x[i] = args.scales != nullptr ? code_of(args.rule, by, x[i]) : remains_of(args.rule, by, x[i]);
  write_row(args, row, first, count, aligned, x);
}

// One block for a row whose numbers share a scale.
template <int W, Number N>
MOERT_KERNEL MOERT_BOUNDS(256, 1) void quantise_rows(int64_t first_row, RowsArgs args) {
  const int64_t row = first_row + block_x();
  const RowOrigin origin = origin_of(args, row);
  if (origin.row < 0) return;
  const SourceRow<N> source = SourceRow<N>::of(args.from, origin.row, args.cols);
  const bool scaled = args.weights.data != nullptr;
  const int64_t begin = thread() * kEight, step = static_cast<int64_t>(threads()) * kEight;
  float x[kEight];
  uint32_t most = 0;
  if (args.rule.scale != RowScale::fixed) {
    for (int64_t c = begin; c < args.padded; c += step) {
      read_scaled<N>(source, c, origin.factor, scaled, x);
      MOERT_UNROLL
      for (int i = 0; i < kEight; ++i) most = more_of(most, x[i]);
    }
    auto* of_warps = reinterpret_cast<uint32_t*>(shared());
    most = most_of_lanes<W>(most, W);
    if (thread() % W == 0) of_warps[thread() / W] = most;
    sync_block();
    for (int warp = 0; warp < threads() / W; ++warp)
      most = of_warps[warp] > most ? of_warps[warp] : most;
  }
  const CodeScale by = code_scale(args.rule, float_of(most), origin.given);
  if (args.scales != nullptr && thread() == 0) args.scales[row] = by.scale;
  for (int64_t c = begin; c < args.padded; c += step) {
    read_scaled<N>(source, c, origin.factor, scaled, x);
    write_quantised(args, by, row, c, kEight, true, x);
  }
}

// One block for a row, `lanes` lanes for a group of columns: as many as have eight numbers each, or a warp.
template <int W, Number N>
MOERT_KERNEL MOERT_BOUNDS(256, 1) void quantise_groups(int64_t first_row, RowsArgs args,
                                                       int lanes) {
  const int64_t row = first_row + block_x();
  const RowOrigin origin = origin_of(args, row);
  if (origin.row < 0) return;
  const SourceRow<N> source = SourceRow<N>::of(args.from, origin.row, args.cols);
  const bool scaled = args.weights.data != nullptr;
  const int64_t group = args.rule.group, groups = (args.padded + group - 1) / group;
  const bool aligned = group % kEight == 0;
  const int teams = W / lanes, lane = thread() % W % lanes;
  const int64_t all_teams = static_cast<int64_t>(threads() / W) * teams;
  // All lanes of a warp go round as often.
  for (int64_t base = static_cast<int64_t>(thread() / W) * teams; base < groups;
       base += all_teams) {
    const int64_t g = base + thread() % W / lanes, first = g * group;
    const int64_t end = first + group < args.padded ? first + group : args.padded;
    float x[kEight];
    uint32_t most = 0;
    for (int64_t c = first + lane * kEight; c < end; c += lanes * kEight) {
      read_scaled<N>(source, c, origin.factor, scaled, x);
      MOERT_UNROLL
      for (int i = 0; i < kEight; ++i)
        if (c + i < end) most = more_of(most, x[i]);
    }
    most = most_of_lanes<W>(most, lanes);
    const CodeScale by = code_scale(args.rule, float_of(most), origin.given);
    if (args.scales != nullptr && lane == 0 && g < groups)
      args.scales[row * args.groups + g] = by.scale;
    for (int64_t c = first + lane * kEight; c < end; c += lanes * kEight) {
      read_scaled<N>(source, c, origin.factor, scaled, x);
      write_quantised(args, by, row, c, end - c, aligned, x);
    }
  }
}

}  // namespace moert::gpu
