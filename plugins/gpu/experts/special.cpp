// Matrix kernels of single architectures: what they are called, and the numbers that they take.
// SPDX-License-Identifier: Apache-2.0
#include "special.hpp"

namespace moert::gpu {

GemmKernel gemm_kernel(std::string_view word) {
  if (word.empty() || word == "mma") return GemmKernel::mma;
  if (word == "wgmma") return GemmKernel::wgmma;
  if (word == "native") return GemmKernel::native;
  throw PluginError(MOERT_INVALID_ARGUMENT,
                    "option gemm: '" + std::string(word) + "', expected mma, wgmma or native");
}

std::string gemm_refusal(GemmKernel kernel, const DeviceFacts& device, const Treatment& treatment) {
  if (kernel == GemmKernel::mma) return {};
  if (std::string missing = special_gemm_missing(kernel, device); !missing.empty()) return missing;
  const Codec codec = treatment.format.codec;
  if (kernel == GemmKernel::wgmma)
    return codec == Codec::f32 ? "gemm: wgmma is not for numbers that are decoded to f32" : "";
  const RowRule& rule = treatment.rule;
  const bool mx = treatment.codes && rule.scale == RowScale::mx && rule.code == RowCode::e4m3fn;
  return codec == Codec::mxfp4 && mx
             ? ""
             : "gemm: native is for weights of mxfp4.g32.e8m0 and rows quantised by mxfp8 alone";
}

}  // namespace moert::gpu
