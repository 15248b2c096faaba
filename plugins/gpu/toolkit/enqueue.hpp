// A launch as the toolkit's host side sees it: addresses of a kernel and of its arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace moert::gpu {

// In runtime.cpp. Throws PluginError with the toolkit's number.
void enqueue(const void* kernel, unsigned blocks_x, unsigned blocks_y, int threads,
             uint32_t shared_bytes, void* stream, void** arguments);

}  // namespace moert::gpu
