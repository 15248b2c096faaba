// Choosing a kernel by the width of the device's warps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/error.hpp>

#include <type_traits>

#include "../tile/layouts.cuh"

namespace moert::gpu {

// body(std::integral_constant<int, W>) with W = warp.
template <class Body>
void with_warp(int32_t warp, Body body) {
#define MOERT_WITH_WIDTH(L) \
  if (L::kWarp == warp) return body(std::integral_constant<int, L::kWarp>{});
  MOERT_LAYOUTS(MOERT_WITH_WIDTH)
#undef MOERT_WITH_WIDTH
  throw PluginError(MOERT_INTERNAL, "no kernels for warps of " + std::to_string(warp) + " lanes");
}

}  // namespace moert::gpu
