// Errors as the program shows them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

#include <moert/error.hpp>

#include "console.hpp"
#include "json.hpp"

namespace moert::tool {

// Any exception as an Error: memory that ran out, and defects of the program itself, become
// Fault::device.
Error as_error(const std::exception& exception);

const char* fault_name(Fault fault);
Json error_json(const Error& error);

// Three lines on stderr; with `json` also an object on stdout, in the place of results.
void show_error(Console& console, const Error& error, bool json, const std::string& command);

}  // namespace moert::tool
