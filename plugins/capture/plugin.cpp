// The capturers of this library.
// SPDX-License-Identifier: Apache-2.0
#include <moert/sdk/plugin.hpp>

#include "memory.hpp"

MOERT_PLUGIN("org.moert.capture", "capture", "MoERT", "0.1.0", moert::capture::Memory)
