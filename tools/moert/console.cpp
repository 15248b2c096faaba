// SPDX-License-Identifier: Apache-2.0
#include "console.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <moert/error.hpp>

#include "environment.hpp"

namespace moert::tool {

namespace {

// errno of the failed write, or 0.
int write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(file, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

}  // namespace

std::string printable(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f) {
      safe += "\\x";
      safe += kHex[byte >> 4];
      safe += kHex[byte & 15];
    } else {
      safe += c;
    }
  }
  return safe;
}

Console::Console(bool wants_colour) {
  colour_ = wants_colour && variable("NO_COLOR").empty() && variable("TERM") != "dumb" &&
            ::isatty(STDOUT_FILENO) == 1;
}

void Console::line(std::string_view text) {
  results_ += text;
  results_ += '\n';
}

void Console::say(std::string_view text) const {
  // Nothing can be done where stderr is gone.
  write_all(STDERR_FILENO, std::string(text) + "\n");
}

void Console::flush() {
  const std::string text = std::exchange(results_, {});
  const int error = write_all(STDOUT_FILENO, text);
  if (error == EPIPE) throw ReaderGone();
  if (error != 0) {
    throw Error(Fault::device, std::string("cannot write the results: ") + std::strerror(error),
                "standard output", "the results are lost; send them to a place that takes them");
  }
}

std::string Console::painted(const std::string& text, const char* code) const {
  return colour_ ? "\x1b[" + std::string(code) + "m" + text + "\x1b[0m" : text;
}

}  // namespace moert::tool
