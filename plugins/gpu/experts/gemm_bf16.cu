// Matrix kernels for weights of bf16.
// SPDX-License-Identifier: Apache-2.0
#include "gemm_launch.cuh"

namespace moert::gpu {

void launch_bf16(LayoutId layout, const GemmLaunch& go, const GemmArgs& args) {
  launch_codec<Codec::bf16>(layout, go, args);
}

}  // namespace moert::gpu
