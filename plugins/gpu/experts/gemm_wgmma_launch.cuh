// launch_wgmma, for the one file of a backend that has the instruction.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../kernels/gemm_wgmma.cuh"
#include "gemm_wgmma.hpp"

namespace moert::gpu {

template <Codec kCodec, int kPanels>
void launch_wgmma_panels(const GemmLaunch& go, const GemmArgs& args) {
  using T = WgmmaTile<kCodec>;
  const int64_t tiles = go.most_items * ((args.weights.panels + T::kPanels - 1) / T::kPanels);
  const int64_t blocks = tiles < go.multiprocessors ? tiles : go.multiprocessors;
  launch<gemm_wgmma<kCodec, kPanels>>(Grid{static_cast<unsigned>(blocks), 1}, T::kThreads,
                                      T::kShared, go.stream, args);
}

template <Codec kCodec>
void launch_wgmma_halves(const GemmLaunch& go, const GemmArgs& args) {
  if (args.gated)
    launch_wgmma_panels<kCodec, 2>(go, args);
  else
    launch_wgmma_panels<kCodec, 1>(go, args);
}

inline void launch_wgmma_codec(Codec codec, const GemmLaunch& go, const GemmArgs& args) {
  switch (codec) {
    case Codec::bf16: return launch_wgmma_halves<Codec::bf16>(go, args);
    case Codec::fp8: return launch_wgmma_halves<Codec::fp8>(go, args);
    case Codec::mxfp4: return launch_wgmma_halves<Codec::mxfp4>(go, args);
    default: throw PluginError(MOERT_INTERNAL, "no wgmma kernel for weights of f32");
  }
}

}  // namespace moert::gpu
