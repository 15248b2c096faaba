// Where log lines go. The only room that knows spdlog.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "util/log.hpp"

namespace moert::observe {

struct LogSettings {
  // "error", "warn", "info", "debug", "trace", or a list of areas to see in full: "dispatch,loader".
  std::string filter = "warn";
  std::string file;  // empty: stderr
};

// A sink of its own: no global logger. Throws Error(usage) for a filter that is neither a level nor a
// list of areas, or for a file that cannot be written. The sink may be called from any thread.
LogSink make_sink(const LogSettings& settings);

// Areas that the core itself uses.
const std::vector<std::string>& known_areas();

}  // namespace moert::observe
