// The matrix kernels of single architectures that the simulator has the instructions of.
// SPDX-License-Identifier: Apache-2.0
#include "../../plugins/gpu/experts/special.hpp"

#include "../../plugins/gpu/experts/gemm_mx_launch.cuh"
#if MOERT_SIM_WARP == 32
#include "../../plugins/gpu/experts/gemm_wgmma_launch.cuh"
#include "../../plugins/gpu/kernels/mx_nv.cuh"
#else
#include "../../plugins/gpu/kernels/mx_cdna.cuh"
#endif

namespace moert::gpu {

std::string special_gemm_missing(GemmKernel kernel, const DeviceFacts& device) {
  if (device.layout == LayoutId::rdna || (kernel == GemmKernel::wgmma && device.warp != 32))
    return "the simulated device has no such matrix instruction";
  return {};
}

void launch_special(GemmKernel kernel, Codec codec, const GemmLaunch& go, const GemmArgs& args) {
#if MOERT_SIM_WARP == 32
  if (kernel == GemmKernel::wgmma) return launch_wgmma_codec(codec, go, args);
  launch_mx_halves<MxNv>(go, args);
#else
  if (kernel != GemmKernel::native || codec != Codec::mxfp4)
    throw PluginError(MOERT_INTERNAL, "a matrix kernel that this device has not");
  launch_mx_halves<MxCdna>(go, args);
#endif
}

}  // namespace moert::gpu
