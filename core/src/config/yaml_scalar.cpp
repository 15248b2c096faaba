// What an unquoted YAML scalar means: the core schema of YAML 1.2 without its traps.
// SPDX-License-Identifier: Apache-2.0
#include <cctype>
#include <charconv>
#include <cmath>
#include <system_error>

#include "config/yaml_node.hpp"

namespace moert::config {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

size_t skip_digits(std::string_view text, size_t at) {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

size_t skip_sign(std::string_view text) {
  return !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
}

bool is_decimal_integer(std::string_view text) {
  const size_t start = skip_sign(text);
  return start < text.size() && skip_digits(text, start) == text.size();
}

// [-+]? ( .digits | digits ( . digits? )? ) ( [eE] [-+]? digits )?
bool is_decimal_number(std::string_view text) {
  size_t at = skip_sign(text);
  const size_t whole = skip_digits(text, at) - at;
  at += whole;
  size_t fraction = 0;
  if (at < text.size() && text[at] == '.') {
    fraction = skip_digits(text, at + 1) - (at + 1);
    at += 1 + fraction;
  }
  if (whole + fraction == 0) return false;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    at += at < text.size() ? skip_sign(text.substr(at)) : 0;
    const size_t end = skip_digits(text, at);
    if (end == at) return false;
    at = end;
  }
  return at == text.size();
}

bool is_not_finite(std::string_view text) {
  std::string rest(text.substr(skip_sign(text)));
  for (char& c : rest) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return rest == ".inf" || rest == ".nan";
}

// 0 where `text` is neither "0x..." nor "0o...".
int prefixed_base(std::string_view text) {
  if (text.size() < 3 || text[0] != '0') return 0;
  const int base = text[1] == 'x' ? 16 : text[1] == 'o' ? 8 : 0;
  for (const char c : text.substr(2)) {
    const bool fits =
        base == 16 ? std::isxdigit(static_cast<unsigned char>(c)) != 0 : c >= '0' && c <= '7';
    if (!fits) return 0;
  }
  return base;
}

void set_integer(YamlNode& node, std::string_view digits, int base) {
  if (digits.front() == '+') digits.remove_prefix(1);
  const auto result =
      std::from_chars(digits.data(), digits.data() + digits.size(), node.integer, base);
  if (result.ec != std::errc{})
    fail_at(node.place(), "the integer " + node.text + " does not fit 64 bits",
            "write a smaller one");
  node.type = YamlNode::Type::integer;
  node.number = static_cast<double>(node.integer);
}

void set_number(YamlNode& node) {
  std::string_view digits = node.text;
  if (digits.front() == '+') digits.remove_prefix(1);
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), node.number);
  if (result.ec != std::errc{} || !std::isfinite(node.number))
    fail_at(node.place(), "the number " + node.text + " is outside the range of a double",
            "write a number between 2.3e-308 and 1.7e308");
  node.type = YamlNode::Type::number;
}

}  // namespace

void resolve_plain(YamlNode& node) {
  const std::string_view text = node.text;
  node.type = YamlNode::Type::string;
  if (text == "true" || text == "True" || text == "TRUE" || text == "false" || text == "False" ||
      text == "FALSE") {
    node.type = YamlNode::Type::boolean;
    node.boolean = text[0] == 't' || text[0] == 'T';
  } else if (is_decimal_integer(text)) {
    const size_t start = skip_sign(text);
    if (text[start] == '0' && text.size() > start + 1)
      fail_at(node.place(), node.text + " has a leading zero, which some readers take for octal",
              "write it without the zero, as 0o... for octal, or in quotes if it is text");
    set_integer(node, text, 10);
  } else if (const int base = prefixed_base(text); base != 0) {
    set_integer(node, text.substr(2), base);
  } else if (is_decimal_number(text)) {
    set_number(node);
  } else if (is_not_finite(text)) {
    fail_at(node.place(), node.text + " is not a finite number", "no key takes NaN or infinity");
  }
}

}  // namespace moert::config
