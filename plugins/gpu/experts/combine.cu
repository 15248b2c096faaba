// The sum of a token's slots.
// SPDX-License-Identifier: Apache-2.0
#include "combine.hpp"

#include "../kernels/combine.cuh"
#include "../kernels/pieces.cuh"
#include "../kernels/widths.cuh"

namespace moert::gpu {
namespace {

constexpr int64_t kThreads = 256;

int64_t ratio_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <int W, Number N>
void launch_gate(const GateArgs& args, Stream stream) {
  constexpr int kWarps = 4;
  launch_blocks<sigmoid_gate<W, N>>({ratio_up(args.tokens, kWarps)}, kWarps * W, uint32_t{0},
                                    stream, args);
}

}  // namespace

void launch_combine(const CombineArgs& args, Stream stream) {
  const int64_t eights = ratio_up(args.cols, kEight);
  const Blocks blocks = {args.tokens, ratio_up(eights, kThreads)};
  // Whole warps of either width.
  const auto threads = static_cast<int>(eights < kThreads ? ratio_up(eights, 64) * 64 : kThreads);
  switch (args.out.number) {
    case Number::f32:
      return launch_blocks<combine_slots<Number::f32>>(blocks, threads, uint32_t{0}, stream, args);
    case Number::bf16:
      return launch_blocks<combine_slots<Number::bf16>>(blocks, threads, uint32_t{0}, stream, args);
    case Number::f16:
      return launch_blocks<combine_slots<Number::f16>>(blocks, threads, uint32_t{0}, stream, args);
  }
}

void launch_sigmoid_gate(const GateArgs& args, int32_t warp, Stream stream) {
  with_warp(warp, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    switch (args.rows.number) {
      case Number::f32: return launch_gate<kWidth, Number::f32>(args, stream);
      case Number::bf16: return launch_gate<kWidth, Number::bf16>(args, stream);
      case Number::f16: return launch_gate<kWidth, Number::f16>(args, stream);
    }
  });
}

}  // namespace moert::gpu
