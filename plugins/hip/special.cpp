// Matrix kernels of single architectures: which devices have them.
// SPDX-License-Identifier: Apache-2.0
#include "../gpu/experts/special.hpp"

#include "../gpu/experts/gemm_mx.hpp"
#include "architectures.hpp"

namespace moert::gpu {

std::string special_gemm_missing(GemmKernel kernel, const DeviceFacts& device) {
  if (kernel == GemmKernel::mma) return {};
  if (kernel == GemmKernel::wgmma) return "gemm: wgmma is for sm_90, and this is HIP";
  if (bare(device.architecture) != "gfx950")
    return "gemm: native is for gfx950, and " + device.name + " is " + device.architecture;
#ifdef MOERT_HIP_HAS_GFX950
  return {};
#else
  return "gemm: native is for gfx950, which this build leaves out";
#endif
}

void launch_special([[maybe_unused]] GemmKernel kernel, Codec /*codec*/,
                    [[maybe_unused]] const GemmLaunch& go, [[maybe_unused]] const GemmArgs& args) {
#ifdef MOERT_HIP_HAS_GFX950
  if (kernel == GemmKernel::native) return launch_mx(go, args);
#endif
  throw PluginError(MOERT_INTERNAL, "a matrix kernel that this build has not");
}

}  // namespace moert::gpu
