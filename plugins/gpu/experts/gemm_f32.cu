// Matrix kernels for weights of f32.
// SPDX-License-Identifier: Apache-2.0
#include "gemm_launch.cuh"

namespace moert::gpu {

void launch_f32(LayoutId layout, const GemmLaunch& go, const GemmArgs& args) {
  launch_codec<Codec::f32>(layout, go, args);
}

}  // namespace moert::gpu
