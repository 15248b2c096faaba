// std::to_chars throughout: the page must not depend on the locale of who makes it.
// SPDX-License-Identifier: Apache-2.0
#include "report/numbers.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace moert::report {
namespace {

constexpr int kDigits = 3;
constexpr double kSmallest = 1e-6;  // below it, zeros would be longer than an exponent

std::string written(double value, std::chars_format format, int precision) {
  std::array<char, 400> buffer{};  // the largest double has 309 digits before its point
  const std::to_chars_result end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format, precision);
  return {buffer.data(), end.ptr};
}

// `digits` may begin with a sign and go on after a point.
std::string grouped(std::string digits) {
  const size_t sign = digits.starts_with('-') ? 1 : 0;
  for (size_t at = std::min(digits.find('.'), digits.size()); at > sign + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

}  // namespace

std::string integer_text(int64_t value) { return grouped(std::to_string(value)); }

std::string number_text(double value) {
  if (!std::isfinite(value)) return "–";
  if (value == 0) return "0";
  // Rounding may carry into the next power of ten, so the exponent is read from what was rounded.
  std::string scientific = written(value, std::chars_format::scientific, kDigits - 1);
  if (std::abs(value) < kSmallest) return scientific;
  const int exponent = std::atoi(scientific.c_str() + scientific.find('e') +
                                 1);  // NOLINT(cert-err34-c): written above
  return grouped(written(value, std::chars_format::fixed, std::max(0, kDigits - 1 - exponent)));
}

std::string percent_text(double fraction) {
  return std::isfinite(fraction) ? number_text(100 * fraction) + "%" : number_text(fraction);
}

std::string times_text(double ratio) {
  return std::isfinite(ratio) ? number_text(ratio) + "×" : number_text(ratio);
}

std::string counted(int64_t count, const std::string& thing) {
  return integer_text(count) + " " + thing + (count == 1 ? "" : "s");
}

std::string ranges_text(const std::vector<int64_t>& rising) {
  std::string text;
  for (size_t begin = 0, end = 0; begin < rising.size(); begin = end) {
    end = begin + 1;
    while (end < rising.size() && rising[end] == rising[end - 1] + 1) ++end;
    if (!text.empty()) text += ", ";
    text += std::to_string(rising[begin]);
    if (end > begin + 1) text += (end == begin + 2 ? ", " : "–") + std::to_string(rising[end - 1]);
  }
  return text;
}

std::string coordinate(double value) {
  std::string text = written(value, std::chars_format::fixed, 1);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

}  // namespace moert::report
