// Launching a kernel, for the toolkits whose launch takes a kernel's address and its arguments' addresses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "enqueue.hpp"

namespace moert::gpu {

using LaunchStream = Stream;

// One of the toolkits counts them in 32 bits.
constexpr int64_t most_grid_threads() { return 0xffffffff; }

template <auto kKernel, class Pointer = decltype(kKernel)>
struct Launch;

// The kernel alone says which types its arguments have.
template <auto kKernel, class... P>
struct Launch<kKernel, void (*)(P...)> {
  static_assert((std::is_trivially_copyable_v<P> && ...), "arguments are copied as bytes");
  static inline const LaunchedKernel kernel{reinterpret_cast<const void*>(kKernel)};

  static void run(Grid grid, int threads, uint32_t shared_bytes, LaunchStream stream,
                  P... arguments) {
    void* addresses[] = {&arguments..., nullptr};
    enqueue(kernel, grid.x, grid.y, threads, shared_bytes, stream, addresses);
  }
};

template <auto kKernel, class... A>
void launch(Grid grid, int threads, uint32_t shared_bytes, LaunchStream stream,
            const A&... arguments) {
  Launch<kKernel>::run(grid, threads, shared_bytes, stream, arguments...);
}

}  // namespace moert::gpu
