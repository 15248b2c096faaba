// The progress line of loading and writing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace moert::tool {

// One line on stderr, rewritten; only on a terminal, only after a second. Also the place where the work
// notices Ctrl-C, by an exception.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet, const char* action = "loading weights");
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() { clear(); }

  void update(uint64_t done, uint64_t total, uint64_t bytes);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  const char* action_;
  bool enabled_ = false, shown_ = false;
  Clock::time_point start_, last_;
};

}  // namespace moert::tool
