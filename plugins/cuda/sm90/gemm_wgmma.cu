// The matrix kernel for many rows on Hopper.
// SPDX-License-Identifier: Apache-2.0
#include "../../gpu/experts/gemm_wgmma_launch.cuh"

namespace moert::gpu {

void launch_wgmma(Codec codec, const GemmLaunch& go, const GemmArgs& args) {
  launch_wgmma_codec(codec, go, args);
}

}  // namespace moert::gpu
