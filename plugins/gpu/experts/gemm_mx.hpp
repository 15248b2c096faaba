// The matrix kernel of gemm_mx.cuh: its launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm_codecs.hpp"

namespace moert::gpu {

// Weights of mxfp4; rows are numbers of e4m3fn with a power of two for each 32 of them. Items of any size.
void launch_mx(const GemmLaunch& go, const GemmArgs& args);

}  // namespace moert::gpu
