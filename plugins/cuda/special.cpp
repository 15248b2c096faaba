// Matrix kernels of single architectures: which devices have them.
// SPDX-License-Identifier: Apache-2.0
#include "../gpu/experts/special.hpp"

#include "../gpu/experts/gemm_mx.hpp"
#include "../gpu/experts/gemm_wgmma.hpp"

namespace moert::gpu {
namespace {

#ifdef MOERT_CUDA_HAS_90a
constexpr bool kHas90a = true;
#else
constexpr bool kHas90a = false;
#endif
#ifdef MOERT_CUDA_HAS_120a
constexpr bool kHas120a = true;
#else
constexpr bool kHas120a = false;
#endif

// Code of such an architecture runs on devices of exactly that number.
std::string missing(const char* word, const char* wanted, bool built, const DeviceFacts& device) {
  const std::string begin = std::string("gemm: ") + word + " is for " + wanted;
  if (device.architecture != wanted)
    return begin + ", and " + device.name + " is " + device.architecture;
  return built ? "" : begin + "a, which this build leaves out";
}

}  // namespace

std::string special_gemm_missing(GemmKernel kernel, const DeviceFacts& device) {
  switch (kernel) {
    case GemmKernel::wgmma: return missing("wgmma", "sm_90", kHas90a, device);
    case GemmKernel::native: return missing("native", "sm_120", kHas120a, device);
    default: return {};
  }
}

void launch_special([[maybe_unused]] GemmKernel kernel, [[maybe_unused]] Codec codec,
                    [[maybe_unused]] const GemmLaunch& go, [[maybe_unused]] const GemmArgs& args) {
#ifdef MOERT_CUDA_HAS_90a
  if (kernel == GemmKernel::wgmma) return launch_wgmma(codec, go, args);
#endif
#ifdef MOERT_CUDA_HAS_120a
  if (kernel == GemmKernel::native) return launch_mx(go, args);
#endif
  throw PluginError(MOERT_INTERNAL, "a matrix kernel that this build has not");
}

}  // namespace moert::gpu
