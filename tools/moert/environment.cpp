// SPDX-License-Identifier: Apache-2.0
#include "environment.hpp"

#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

namespace moert::tool {

const std::vector<KnownVariable>& known_variables() {
  static const std::vector<KnownVariable> variables = {
      {"MOERT_PLUGIN_PATH", "--plugin-path", "folders or files with plugins, separated by ':'"},
      {"MOERT_PLUGINS", "--plugins", "plugins that may be used, separated by commas"},
      {"MOERT_LOG", "--log", "level, or areas to see in full"},
      {"MOERT_LOG_FILE", "--log-file", "where the log goes"},
      {"MOERT_DEVICE", "--device", "cpu, cuda:0, hip:0, auto"},
      {"MOERT_NUM_THREADS", "--threads", "threads of the core's pool"},
      {"MOERT_CPU_ISA", "--cpu-isa", "highest level of instructions that cpu.simd uses"},
      {"NO_COLOR", "--no-color", "no colour, if it is not empty"},
  };
  return variables;
}

bool privileged() { return ::getauxval(AT_SECURE) != 0; }

std::string variable(const char* name) {
  const char* value = ::secure_getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<Variable> moert_variables() {
  std::vector<Variable> found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (!text.starts_with("MOERT_") || equals == std::string_view::npos) continue;
    Variable seen{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1)), false};
    for (const KnownVariable& known : known_variables()) seen.known |= seen.name == known.name;
    found.push_back(std::move(seen));
  }
  std::sort(found.begin(), found.end(),
            [](const Variable& a, const Variable& b) { return a.name < b.name; });
  return found;
}

}  // namespace moert::tool
