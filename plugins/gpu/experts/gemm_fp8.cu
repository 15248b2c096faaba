// Matrix kernels for weights of fp8.
// SPDX-License-Identifier: Apache-2.0
#include "gemm_launch.cuh"

namespace moert::gpu {

void launch_fp8(LayoutId layout, const GemmLaunch& go, const GemmArgs& args) {
  launch_codec<Codec::fp8>(layout, go, args);
}

}  // namespace moert::gpu
