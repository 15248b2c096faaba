// Matrix kernels of single architectures: asked for by name, and defined by each backend.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "gemm_codecs.hpp"
#include "treatment.hpp"

namespace moert::gpu {

// Of the value of an option `gemm`; empty is mma. Throws MOERT_INVALID_ARGUMENT for a word that there is not.
GemmKernel gemm_kernel(std::string_view word);

// Why products of such numbers are not computed so on this device; empty if they are. wgmma takes what is not decoded
// to f32; native takes weights of mxfp4 and rows of mxfp8, and hands codes and scales to the instruction as they are.
std::string gemm_refusal(GemmKernel kernel, const DeviceFacts& device, const Treatment& treatment);

// Both of the backend. Why this device, or this build, has no such kernels; empty if it has.
std::string special_gemm_missing(GemmKernel kernel, const DeviceFacts& device);
// Enqueues, on a device that has the kernel.
void launch_special(GemmKernel kernel, Codec codec, const GemmLaunch& go, const GemmArgs& args);

}  // namespace moert::gpu
