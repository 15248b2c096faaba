// What --help says. Plain texts: nothing here knows how arguments are parsed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "commands.hpp"

namespace moert::tool {

// A subcommand, or a group of them where `run` is null.
struct CommandInfo {
  std::string name;     // "plugins list"; empty: the program
  std::string usage;    // behind the name
  std::string summary;  // one sentence
  std::vector<std::string> examples;
  std::string target, target_text;  // the positional argument, and what it is
  bool target_required = false;
  Command run = nullptr;
};

struct OptionInfo {
  std::string group;  // "Run", "Output" ...
  std::string names;  // "-o, --output FILE"
  std::string text;   // ends with [default; environment twin]
};

const std::vector<CommandInfo>& commands();

std::string help_text(const CommandInfo& command, const std::vector<OptionInfo>& options);

}  // namespace moert::tool
