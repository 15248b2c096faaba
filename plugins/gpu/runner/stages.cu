// Launches of what a runner does around its parts.
// SPDX-License-Identifier: Apache-2.0
#include "stages.hpp"

#include "../kernels/dense.cuh"
#include "../kernels/runner.cuh"
#include "../kernels/widths.cuh"

namespace moert::gpu {
namespace {

Blocks blocks_of(int64_t work) { return {(work + runner::kThreads - 1) / runner::kThreads}; }

template <class Finish>
void launch_each(void* stream, const FloatRows& rows, const RowNorm& norm, const Finish& finish) {
  const int64_t numbers = rows.tokens * rows.cols;
  if (numbers == 0) return;
  launch_blocks<runner::each_number<Finish>>(blocks_of(numbers), runner::kThreads, uint32_t{0},
                                             stream, rows, norm, finish);
}

}  // namespace

void launch_router_rows(void* stream, const RouterRowsArgs& args) {
  if (args.tokens == 0) return;
  launch_blocks<runner::router_rows>(blocks_of(args.tokens), runner::kThreads, uint32_t{0}, stream,
                                     args);
}

void launch_slots(void* stream, const SlotsArgs& args) {
  if (args.tokens == 0) return;
  launch_blocks<runner::slots>(blocks_of(args.tokens), runner::kThreads, uint32_t{0}, stream, args);
}

void launch_norm_rows(void* stream, const FloatRows& rows, const RowNorm& norm,
                      const FloatRows& to) {
  launch_each(stream, rows, norm, runner::ToRows{to});
}

void launch_project(int warp, void* stream, const FloatRows& rows, const DenseMatrix& matrix,
                    const FloatRows& to) {
  with_warp(warp, [&](auto width) {
    launch_dense<decltype(width)::value, F32Matrix>(stream, rows, RowNorm{}, matrix,
                                                    runner::ToRows{to});
  });
}

void launch_project_and_combine(int warp, void* stream, const FloatRows& rows, const RowNorm& norm,
                                const DenseMatrix& matrix, const OutputArgs& args) {
  with_warp(warp, [&](auto width) {
    launch_dense<decltype(width)::value, F32Matrix>(stream, rows, norm, matrix,
                                                    runner::ToOutput{args});
  });
}

void launch_combine(void* stream, const FloatRows& rows, const RowNorm& norm,
                    const OutputArgs& args) {
  launch_each(stream, rows, norm, runner::ToOutput{args});
}

}  // namespace moert::gpu
