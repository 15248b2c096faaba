// Small copies when objects are made.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime.hpp"

namespace moert::gpu {

// From the host to the current device; done when it returns.
void copy_and_wait(void* device, const void* host, uint64_t bytes);

}  // namespace moert::gpu
