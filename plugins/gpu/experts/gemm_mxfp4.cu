// Matrix kernels for weights of mxfp4.
// SPDX-License-Identifier: Apache-2.0
#include "gemm_launch.cuh"

namespace moert::gpu {

void launch_mxfp4(LayoutId layout, const GemmLaunch& go, const GemmArgs& args) {
  launch_codec<Codec::mxfp4>(layout, go, args);
}

}  // namespace moert::gpu
