// Block-scaled products on sm_100a: the launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../gpu/experts/gemm_codecs.hpp"

namespace moert::gpu {

// As launch_mx (gemm_mx.hpp of plugins/gpu), for items of at most 128 rows.
void launch_mx_tile(const GemmLaunch& go, const GemmArgs& args);

}  // namespace moert::gpu
