// Launches whose grid grows with the batch. A toolkit takes so many threads along a side of a grid and no more, so that
// a large batch is several launches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../port.cuh"

namespace moert::gpu {

struct Blocks {
  int64_t x;  // may be 0
  int64_t y = 1;
};

// Enqueues kKernel(first, arguments...) for all of the blocks; `first` is an int64_t, and a block is number first +
// block_x() along x.
template <auto kKernel, class... A>
void launch_blocks(Blocks blocks, int threads, uint32_t shared_bytes, LaunchStream stream,
                   const A&... arguments) {
  const int64_t most = most_grid_threads() / threads;
  for (int64_t first = 0; first < blocks.x; first += most) {
    const int64_t left = blocks.x - first;
    const Grid grid = {static_cast<unsigned>(left < most ? left : most),
                       static_cast<unsigned>(blocks.y)};
    launch<kKernel>(grid, threads, shared_bytes, stream, first, arguments...);
  }
}

}  // namespace moert::gpu
