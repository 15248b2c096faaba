// Launches of the matrix kernels of one codec. Each codec is a file of its own, so that they compile side by side.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../kernels/gemm_blocks.cuh"
#include "../kernels/pieces.cuh"
#include "gemm_codecs.hpp"

namespace moert::gpu {

template <class L, Codec kCodec, int kPanels>
void launch_panels(const GemmLaunch& go, const GemmArgs& args) {
  using T = BlockTile<L, kCodec>;
  const int writers = args.weights.panels / kPanels;
  const Blocks stream = {go.most_items, (writers + kStreamWarps - 1) / kStreamWarps};
  constexpr int kThreads = kStreamWarps * L::kWarp;
  // Sums of f32 are the slow way in any case.
  if constexpr (kCodec != Codec::f32) {
    constexpr int kWide = L::kCols == 8 ? 4 : 2;
    if (go.tiling == Tiling::blocks) {
      const int64_t tiles = go.most_items * ((args.weights.panels + T::kPanels - 1) / T::kPanels);
      const int64_t blocks = tiles < go.multiprocessors ? tiles : go.multiprocessors;
      return launch<gemm_blocks<L, kCodec, kPanels>>(Grid{static_cast<unsigned>(blocks), 1},
                                                     T::kThreads, T::kShared, go.stream, args);
    }
    if (go.tiling == Tiling::wide)
      return launch_blocks<gemm_stream<L, kCodec, kPanels, kWide>>(stream, kThreads, 0, go.stream,
                                                                   args);
  }
  launch_blocks<gemm_stream<L, kCodec, kPanels, 1>>(stream, kThreads, 0, go.stream, args);
}

template <class L, Codec kCodec>
void launch_halves(const GemmLaunch& go, const GemmArgs& args) {
  if (args.gated)
    launch_panels<L, kCodec, 2>(go, args);
  else
    launch_panels<L, kCodec, 1>(go, args);
}

template <Codec kCodec>
void launch_codec(LayoutId layout, const GemmLaunch& go, const GemmArgs& args) {
#define MOERT_LAUNCH_LAYOUT(L) \
  if (layout == L::kId) return launch_halves<L, kCodec>(go, args);
  MOERT_LAYOUTS(MOERT_LAUNCH_LAYOUT)
#undef MOERT_LAUNCH_LAYOUT
  throw PluginError(MOERT_INTERNAL, "no kernels for this device's tiles");
}

}  // namespace moert::gpu
