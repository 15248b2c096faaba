// The progress line of loading.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace moert::tool {

// One line on stderr, rewritten; only on a terminal, only after a second. Also the place where loading
// notices Ctrl-C, by an exception.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() { clear(); }

  void update(uint64_t done, uint64_t total, uint64_t bytes);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool enabled_ = false, shown_ = false;
  Clock::time_point start_, last_;
};

}  // namespace moert::tool
