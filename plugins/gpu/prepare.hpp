// What a device needs before the first forward of any object on it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "faults.hpp"

namespace moert::gpu {

// Loads the kernels, once for each device, and gives the device's fault record. Every object that launches calls it
// when it is made, so that no forward does what a recorded graph forbids. Any thread. Throws what load_kernels and
// fault_record throw; then the next call tries again.
Fault* prepare_device(int32_t ordinal);

}  // namespace moert::gpu
