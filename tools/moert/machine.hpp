// What this machine is: its processor, its caches, its memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace moert::tool {

// Empty where the system does not say it.
std::string processor_name();
// The extensions that plugins may need.
std::string processor_extensions();

// Of all caches of the last level together, in bytes; 32 MiB where the system does not say it.
uint64_t last_level_cache_bytes();
// What may still be taken without swapping, in bytes; 0 where the system does not say it.
uint64_t available_memory_bytes();

}  // namespace moert::tool
