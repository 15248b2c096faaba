// How the core's rooms say something: through a sink that the runtime hands them. No global logger.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace moert {

enum class LogLevel { trace, debug, info, warn, error };

// Any thread. `area` is a short word: "loader", "dispatch", "weights", "run", or "plugin" for a
// line that some plugin wrote.
using LogSink = std::function<void(LogLevel, const std::string& area, const std::string& message)>;

inline void ignore_log(LogLevel, const std::string&, const std::string&) {}

}  // namespace moert
