// Block-scaled products on gfx950.
// SPDX-License-Identifier: Apache-2.0
#include "../../gpu/experts/gemm_mx_launch.cuh"
#include "../../gpu/kernels/mx_cdna.cuh"

namespace moert::gpu {

void launch_mx(const GemmLaunch& go, const GemmArgs& args) { launch_mx_halves<MxCdna>(go, args); }

}  // namespace moert::gpu
