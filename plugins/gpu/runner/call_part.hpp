// Calls through the tables of a runner's parts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/error.hpp>

#include <string>

namespace moert::gpu {

// Throws what the part reports, in full; `what` names a function that the part may lack.
template <class Function, class... Arguments>
void call_part(const char* what, Function function, Arguments... arguments) {
  if (function == nullptr)
    throw PluginError(MOERT_UNIMPLEMENTED, "the layer's part has no " + std::string(what));
  moert_error_t error{};
  error.struct_size = sizeof error;
  const moert_code_t code = function(arguments..., &error);
  error.message[sizeof error.message - 1] = '\0';  // should the part have forgotten
  if (code != MOERT_OK) throw PluginError(code, error.message, error.native_code);
}

}  // namespace moert::gpu
