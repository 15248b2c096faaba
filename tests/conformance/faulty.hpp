// The parts of the plugin that has a fault.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/router.h>

#include <string_view>

namespace moert::faulty {

extern const moert_router_t* router;  // of the other plugin
extern moert_router_t own_router;     // a copy of it, for the fault

// Puts the fault into the copy; true if the name is one of this kind's.
bool spoil_router(std::string_view fault);

}  // namespace moert::faulty
