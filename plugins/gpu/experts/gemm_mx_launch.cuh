// Launches of gemm_mx.cuh, for the one file of a backend that has the instruction.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../kernels/gemm_mx.cuh"
#include "../kernels/pieces.cuh"
#include "gemm_mx.hpp"

namespace moert::gpu {

template <class X, int kPanels>
void launch_mx_panels(const GemmLaunch& go, const GemmArgs& args) {
  using L = typename X::L;
  const int writers = args.weights.panels / kPanels;
  const Blocks blocks = {go.most_items, (writers + kStreamWarps - 1) / kStreamWarps};
  launch_blocks<gemm_mx<X, kPanels, 32 / L::kCols>>(blocks, kStreamWarps * L::kWarp, 0, go.stream,
                                                    args);
}

template <class X>
void launch_mx_halves(const GemmLaunch& go, const GemmArgs& args) {
  if (args.gated)
    launch_mx_panels<X, 2>(go, args);
  else
    launch_mx_panels<X, 1>(go, args);
}

}  // namespace moert::gpu
