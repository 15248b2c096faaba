// The command line: flags, subcommands, and help. The only part that knows CLI11.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "commands.hpp"
#include "options.hpp"

namespace moert::tool {

// Either a command with its options, or a text to print (help, version).
struct Arguments {
  Command run = nullptr;
  Options options;
  std::string text;
};

// Throws Error(usage) with the nearest name for what it does not know. `options` is filled as far as
// parsing came, so that an error can honour --json.
void parse_arguments(int argc, const char* const* argv, Arguments& arguments);

}  // namespace moert::tool
