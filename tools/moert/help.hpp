// What --help says. Plain texts: nothing here knows how arguments are parsed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commands.hpp"

namespace moert::tool {

// A subcommand, or a group of them where `run` is null.
struct CommandInfo {
  std::string_view name;     // "plugins list"; empty: the program
  std::string_view usage;    // behind the name
  std::string_view summary;  // one sentence
  std::array<std::string_view, 2> examples;
  std::string_view target, target_text;  // the positional argument, and what it is
  bool target_required = false;
  Command run = nullptr;
  std::string_view second = {}, second_text = {};  // a second positional argument, always required
  bool target_many = false;  // the positional argument may be given several times
};

struct OptionInfo {
  std::string group;  // "Run", "Output" ...
  std::string names;  // "-o, --output FILE"
  std::string text;   // ends with [default; environment twin]
};

std::span<const CommandInfo> commands();

std::string help_text(const CommandInfo& command, const std::vector<OptionInfo>& options);

}  // namespace moert::tool
