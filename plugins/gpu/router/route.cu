// Launches the rule of routing.
// SPDX-License-Identifier: Apache-2.0
#include "route.hpp"

#include "../kernels/pieces.cuh"
#include "../kernels/router.cuh"
#include "../kernels/widths.cuh"

namespace moert::gpu {

void launch_route(int warp, uint32_t shared_bytes, void* stream, const RouteArgs& args) {
  if (args.tokens == 0) return;
  const int64_t state = route_state_bytes(args.rule);
  const int64_t room = shared_bytes / state;  // tokens of a block
  const int64_t tokens = room < 1 ? 1 : room > 4 ? 4 : room;
  with_warp(warp, [&](auto width) {
    constexpr int W = decltype(width)::value;
    launch_blocks<router::route<W>>({(args.tokens + tokens - 1) / tokens},
                                    static_cast<int>(tokens) * W,
                                    static_cast<uint32_t>(tokens * state), stream, args);
  });
}

}  // namespace moert::gpu
