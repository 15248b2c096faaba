// Which devices the kernels of a build serve, told by the build's list of architectures.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace moert::gpu {

// "gfx90a" of "gfx90a:sramecc+:xnack-": kernels are compiled for either setting of the features behind the colons.
constexpr std::string_view bare(std::string_view architecture) {
  return architecture.substr(0, architecture.find(':'));
}

// Whether `list`, e.g. "gfx90a,gfx1030", has the device's architecture. Code serves no other.
constexpr bool serves(std::string_view list, std::string_view device) {
  while (!list.empty()) {
    const std::string_view entry = list.substr(0, list.find(','));
    if (bare(entry) == bare(device)) return true;
    list.remove_prefix(entry.size() < list.size() ? entry.size() + 1 : list.size());
  }
  return false;
}

// GCN and CDNA (gfx9) run warps of 64 lanes, RDNA (gfx10 to gfx12) of 32 as kernels are compiled here.
constexpr bool has_wide_warps(std::string_view device) { return device.substr(0, 4) == "gfx9"; }

}  // namespace moert::gpu
