// Ctrl-C and closed channels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

namespace moert::tool {

inline constexpr int kInterruptedExit = 130;

struct Interrupted final : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};

// Main thread, before any other starts. SIGINT and SIGTERM ask the program to stop: the work stops at
// the next throw_if_interrupted(). A second one, or two seconds without an answer, end the process at
// once, with no more than a word. A closed pipe is an error of write(), not a signal. Channels 0 to 2
// that are closed are occupied, so that no file of ours gets their number.
void catch_signals();
bool interrupted() noexcept;
void throw_if_interrupted();

}  // namespace moert::tool
