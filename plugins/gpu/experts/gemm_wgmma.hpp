// The matrix kernel of gemm_wgmma.cuh: its launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm_codecs.hpp"

namespace moert::gpu {

// For items of at most 128 rows, on a device that has wgmma. Weights of f32 are not for it.
void launch_wgmma(Codec codec, const GemmLaunch& go, const GemmArgs& args);

}  // namespace moert::gpu
