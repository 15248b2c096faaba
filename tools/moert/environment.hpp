// Environment variables of the program. All are ignored in a privileged process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace moert::tool {

// What each one means; the flag is its twin and wins.
struct KnownVariable {
  const char* name;
  const char* flag;
  const char* meaning;
};
const std::vector<KnownVariable>& known_variables();

struct Variable {
  std::string name, value;
  bool known = false;
};

bool privileged();
// Empty where it is not set, or the process is privileged.
std::string variable(const char* name);
// Every MOERT_* variable that is set, by name.
std::vector<Variable> moert_variables();

}  // namespace moert::tool
