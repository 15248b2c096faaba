// A launch as the toolkit's host side sees it: a kernel, and addresses of its arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "../launched.hpp"

namespace moert::gpu {

// In runtime.cpp. Throws PluginError with the toolkit's number.
void enqueue(const LaunchedKernel& kernel, unsigned blocks_x, unsigned blocks_y, int threads,
             uint32_t shared_bytes, void* stream, void** arguments);

}  // namespace moert::gpu
