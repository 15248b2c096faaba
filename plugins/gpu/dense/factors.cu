// Factors of RMS norms, row by row.
// SPDX-License-Identifier: Apache-2.0
#include "factors.hpp"

#include "../kernels/dense.cuh"
#include "../kernels/widths.cuh"

namespace moert::gpu {
namespace {

// A block for each row.
template <int W>
MOERT_KERNEL MOERT_BOUNDS(kDenseThreads, 1) void row_factors(int64_t first, FactorsArgs args) {
  const int64_t t = first + block_x();
  double squares[1] = {};
  for (int64_t c = thread(); c < args.rows.cols; c += kDenseThreads) {
    const double x = floats::number(args.rows, t, c);
    squares[0] += x * x;
  }
  const double sum = add_block<W, 1>(squares);
  if (thread() == 0)
    args.factors[t] = args.gain / sqrt(sum / static_cast<double>(args.rows.cols) + args.eps);
}

}  // namespace

void launch_row_factors(int warp, void* stream, const FactorsArgs& args) {
  if (args.rows.tokens == 0) return;
  with_warp(warp, [&](auto width) {
    constexpr int W = decltype(width)::value;
    launch_blocks<row_factors<W>>({args.rows.tokens}, kDenseThreads,
                                  add_block_bytes<W>(kDenseThreads, 1), stream, args);
  });
}

}  // namespace moert::gpu
