// Block-scaled products on sm_120a.
// SPDX-License-Identifier: Apache-2.0
#include "../../gpu/experts/gemm_mx_launch.cuh"
#include "../../gpu/kernels/mx_nv.cuh"

namespace moert::gpu {

void launch_mx(const GemmLaunch& go, const GemmArgs& args) { launch_mx_halves<MxNv>(go, args); }

}  // namespace moert::gpu
