// The matrix kernels' launches, codec by codec.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm.hpp"

namespace moert::gpu {

struct GemmLaunch {
  Tiling tiling;
  int64_t most_items;
  int32_t multiprocessors;
  Stream stream;
};

void launch_bf16(LayoutId layout, const GemmLaunch& go, const GemmArgs& args);
void launch_f32(LayoutId layout, const GemmLaunch& go, const GemmArgs& args);
void launch_fp8(LayoutId layout, const GemmLaunch& go, const GemmArgs& args);
void launch_mxfp4(LayoutId layout, const GemmLaunch& go, const GemmArgs& args);

}  // namespace moert::gpu
