// SPDX-License-Identifier: Apache-2.0
#include "progress.hpp"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "signals.hpp"
#include "text_table.hpp"

namespace moert::tool {

ProgressLine::ProgressLine(bool quiet, const char* action)
    : action_(action),
      enabled_(!quiet && ::isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      last_(start_) {}

void ProgressLine::update(uint64_t done, uint64_t total, uint64_t bytes) {
  throw_if_interrupted();
  if (!enabled_) return;
  const Clock::time_point now = Clock::now();
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  if (elapsed < 1 || (shown_ && now - last_ < std::chrono::milliseconds(100))) return;
  last_ = now;
  shown_ = true;
  const double left =
      done == 0 ? 0 : elapsed * static_cast<double>(total - done) / static_cast<double>(done);
  const std::string text = std::string("\r") + action_ + " " + std::to_string(done) + "/" +
                           std::to_string(total) + "  " +
                           bytes_text(static_cast<uint64_t>(static_cast<double>(bytes) / elapsed)) +
                           "/s  eta " + fixed(left, 0) + " s\x1b[K";
  std::fputs(text.c_str(), stderr);
}

void ProgressLine::clear() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
  shown_ = false;
}

}  // namespace moert::tool
