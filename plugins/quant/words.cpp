// Words of scheme names and options.
// SPDX-License-Identifier: Apache-2.0
#include "words.hpp"

#include <algorithm>
#include <charconv>
#include <string>

namespace moert::quant {
namespace {

constexpr int64_t kLargestSize = 65536;
constexpr std::pair<std::string_view, uint32_t> kScales[] = {{"f32", MOERT_DTYPE_F32},
                                                             {"bf16", MOERT_DTYPE_BF16},
                                                             {"f16", MOERT_DTYPE_F16},
                                                             {"e8m0", MOERT_DTYPE_F8_E8M0}};

// "none, multiply or divide"
std::string list_text(std::initializer_list<std::string_view> words) {
  std::string text;
  for (const std::string_view& word : words) {
    if (!text.empty()) text += &word + 1 == words.end() ? " or " : ", ";
    text += word;
  }
  return text;
}

}  // namespace

std::string_view take_word(std::string_view* text) {
  const size_t dot = std::min(text->find('.'), text->size());
  const std::string_view word = text->substr(0, dot);
  text->remove_prefix(std::min(dot + 1, text->size()));
  return word;
}

std::optional<int64_t> size_word(std::string_view digits) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool plain = error == std::errc{} && end == digits.data() + digits.size();
  if (!plain || value < 1 || value > kLargestSize || digits.front() == '0') return std::nullopt;
  return value;
}

uint32_t scale_word(std::string_view word) {
  for (const auto& [name, dtype] : kScales)
    if (name == word) return dtype;
  return MOERT_DTYPE_INVALID;
}

size_t choice(const Options& options, std::string_view key,
              std::initializer_list<std::string_view> words, size_t fallback) {
  const std::string_view given = options.get(key, words.begin()[fallback]);
  const auto* found = std::find(words.begin(), words.end(), given);
  if (found == words.end())
    throw PluginError(MOERT_INVALID_ARGUMENT, std::string(key) + " '" + std::string(given) +
                                                  "', expected " + list_text(words));
  return static_cast<size_t>(found - words.begin());
}

}  // namespace moert::quant
