// What tests may ask the simulated machine beyond plugins/gpu/runtime.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace moert::sim {

// Device memory, streams, events and graphs that nobody has released, a line for each device; "" if there are none.
// With MOERT_SIM_LEAKS=1 the end of the process prints it, and aborts.
std::string leaks();

// Forgets MOERT_SIM_DEVICES, _MEMORY_MB, _GRID_THREADS and _LAYOUT, which are read once, and which kernels are loaded. Nothing may be
// left on the devices.
void read_environment_again();

}  // namespace moert::sim
