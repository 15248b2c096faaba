// Rows on their way into a matrix product that cannot read them where they are.
// SPDX-License-Identifier: Apache-2.0
#include "rows.hpp"

#include "../kernels/pieces.cuh"
#include "../kernels/rows.cuh"
#include "../kernels/widths.cuh"

namespace moert::gpu {
namespace {

// Lanes that share a group: a power of two with eight numbers each, or all.
int team_of(const RowRule& rule, int32_t warp) {
  const int64_t lanes = rule.group / kEight;
  const bool fits = rule.group % kEight == 0 && (lanes & (lanes - 1)) == 0 && lanes <= warp;
  return fits ? static_cast<int>(lanes) : warp;
}

int threads_of(int64_t padded, int32_t warp) {
  constexpr int64_t kMost = 256;
  const int64_t warps = (padded / kEight + warp - 1) / warp;
  return static_cast<int>(warps * warp < kMost ? warps * warp : kMost);
}

template <int W, Number N>
void launch_of(const RowsArgs& args, int threads, Stream stream) {
  const Blocks blocks = {args.rows};
  if (!args.rule.quantises())
    launch_blocks<convert_rows<N>>(blocks, threads, uint32_t{0}, stream, args);
  else if (args.rule.group == 0)
    launch_blocks<quantise_rows<W, N>>(blocks, threads, static_cast<uint32_t>(threads / W * 4),
                                       stream, args);
  else
    launch_blocks<quantise_groups<W, N>>(blocks, threads, uint32_t{0}, stream, args,
                                         team_of(args.rule, W));
}

}  // namespace

void launch_rows(const RowsArgs& args, int32_t warp, Stream stream) {
  const int threads = threads_of(args.padded, warp);
  with_warp(warp, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    switch (args.from.number) {
      case Number::f32: return launch_of<kWidth, Number::f32>(args, threads, stream);
      case Number::bf16: return launch_of<kWidth, Number::bf16>(args, threads, stream);
      case Number::f16: return launch_of<kWidth, Number::f16>(args, threads, stream);
    }
  });
}

void quantise_row(const RowRule& rule, float input_scale, float* row, int64_t cols) {
  const int64_t group = rule.group == 0 ? cols : rule.group;
  for (int64_t first = 0; rule.quantises() && first < cols; first += group) {
    const int64_t end = first + group < cols ? first + group : cols;
    float amax = 0;
    for (int64_t c = first; c < end; ++c) {
      const float magnitude = row[c] < 0 ? -row[c] : row[c];
      if (is_finite(row[c]) && magnitude > amax) amax = magnitude;
    }
    const CodeScale by = code_scale(rule, amax, input_scale);
    for (int64_t c = first; c < end; ++c) row[c] = remains_of(rule, by, row[c]);
  }
}

}  // namespace moert::gpu
