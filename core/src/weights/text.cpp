// Escapes and cuts text for messages.
// SPDX-License-Identifier: Apache-2.0
#include "weights/text.hpp"

namespace moert::weights {

std::string shown(std::string_view text, size_t most) {
  constexpr char kDigits[] = "0123456789abcdef";
  size_t end = text.size();
  if (end > most) {
    end = most;
    // Not in the middle of a UTF-8 sequence.
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u) --end;
  }
  std::string result;
  for (const char c : text.substr(0, end)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      result += c;
    } else {
      result += "\\x";
      result += kDigits[byte >> 4];
      result += kDigits[byte & 15];
    }
  }
  if (end < text.size()) result += "... (" + std::to_string(text.size()) + " bytes)";
  return result;
}

}  // namespace moert::weights
