// Launching a kernel, for the toolkits whose launch takes a kernel's address and its arguments' addresses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "enqueue.hpp"

namespace moert::gpu {

// The kernel alone says which types its arguments have.
template <class... P>
void launch(void (*kernel)(P...), Grid grid, int threads, uint32_t shared_bytes, Stream stream,
            std::common_type_t<P>... arguments) {
  static_assert((std::is_trivially_copyable_v<P> && ...), "arguments are copied as bytes");
  void* addresses[] = {&arguments..., nullptr};
  enqueue(reinterpret_cast<const void*>(kernel), grid.x, grid.y, threads, shared_bytes, stream,
          addresses);
}

}  // namespace moert::gpu
