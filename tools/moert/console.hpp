// The two channels: results on stdout, talk on stderr.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace moert::tool {

// Whoever read stdout has gone away: nobody is left to tell.
struct ReaderGone final : std::exception {
  const char* what() const noexcept override { return "nobody reads the output any more"; }
};

// Text from files and plugins is made harmless: control characters but for newline and tab are shown
// as \xNN, so that no name of a tensor can move the cursor.
std::string printable(std::string_view text);

// Collects results and writes them together; stderr is written at once.
class Console {
 public:
  // Colour where `wants_colour` and stdout is a terminal that has it.
  explicit Console(bool wants_colour);

  void line(std::string_view text = {});
  void say(std::string_view text) const;  // a line on stderr
  // Writes what was collected. Throws Error(device) if it cannot be written, ReaderGone for a closed
  // pipe.
  void flush();
  void discard() { results_.clear(); }

  bool colour() const { return colour_; }
  std::string bold(const std::string& text) const { return painted(text, "1"); }
  std::string good(const std::string& text) const { return painted(text, "32"); }
  std::string bad(const std::string& text) const { return painted(text, "1;31"); }

 private:
  std::string painted(const std::string& text, const char* code) const;
  std::string results_;
  bool colour_ = false;
};

}  // namespace moert::tool
