// SPDX-License-Identifier: Apache-2.0
#include "capture/base64.hpp"

#include <array>
#include <cstdint>

namespace moert::capture {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr uint8_t kNone = 0xff;

constexpr std::array<uint8_t, 256> values() {
  std::array<uint8_t, 256> table{};
  for (uint8_t& value : table) value = kNone;
  for (size_t i = 0; i < kAlphabet.size(); ++i)
    table[static_cast<unsigned char>(kAlphabet[i])] = static_cast<uint8_t>(i);
  return table;
}

}  // namespace

std::string base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (size_t j = 0; j < 4; ++j)
      text += i + j > bytes.size() ? '=' : kAlphabet[group >> (18 - 6 * j) & 63];
  }
  return text;
}

bool from_base64(std::string_view text, std::string* bytes, std::string* problem) {
  static constexpr std::array<uint8_t, 256> kValues = values();
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  const size_t letters = text.size() - padding;
  bytes->clear();
  bytes->reserve(text.size() / 4 * 3);
  uint32_t group = 0;
  for (size_t i = 0; i < letters; ++i) {
    const uint8_t value = kValues[static_cast<unsigned char>(text[i])];
    if (value == kNone) {
      *problem = "byte " + std::to_string(i) + " is no letter of base64";
      return false;
    }
    group = group << 6 | value;
    if (i % 4 != 0) *bytes += static_cast<char>(group >> (6 - 2 * (i % 4)) & 0xff);
  }
  if (text.size() % 4 != 0) {
    *problem = "base64 comes in fours of letters, but there are " + std::to_string(text.size());
    return false;
  }
  // Of the last letter before the padding, 2 or 4 bits are beyond the last byte.
  if (padding != 0 && (group & ((1U << (2 * padding)) - 1)) != 0) {
    *problem = "the last letter of the base64 text has bits that belong to no byte";
    return false;
  }
  return true;
}

}  // namespace moert::capture
