// The capturers of this library.
// SPDX-License-Identifier: Apache-2.0
#include <moert/sdk/plugin.hpp>

#include "file.hpp"
#include "memory.hpp"
#include "shared_memory.hpp"

MOERT_PLUGIN("org.moert.capture", "capture", "MoERT", "0.1.0", moert::capture::Memory,
             moert::capture::File, moert::capture::SharedMemory)
