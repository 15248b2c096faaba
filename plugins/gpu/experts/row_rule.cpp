// How rows are quantised before a weight reads them: docs/numerics.md, "Activations".
// SPDX-License-Identifier: Apache-2.0
#include "row_rule.hpp"

#include <charconv>
#include <utility>

namespace moert::gpu {
namespace {

bool take(std::string_view* text, std::string_view word) {
  if (text->substr(0, word.size()) != word) return false;
  text->remove_prefix(word.size());
  return true;
}

// "group128", "group32_ue8m0": a width of 1 to 65536 without a zero before it.
bool read_groups(std::string_view word, RowRule* rule) {
  constexpr int32_t kMost = 65536;
  if (!take(&word, "group")) return false;
  int32_t width = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), width);
  if (error != std::errc() || width < 1 || width > kMost || word.front() == '0') return false;
  word.remove_prefix(static_cast<size_t>(end - word.data()));
  rule->group = width;
  rule->scale = take(&word, "_ue8m0") ? RowScale::powers : RowScale::group;
  return word.empty();
}

bool read_fp8(std::string_view word, RowCode code, RowRule* rule) {
  rule->code = code;
  if (word == "static") {
    rule->scale = RowScale::fixed;
    return true;
  }
  if (word == "token") {
    rule->scale = RowScale::token;
    return true;
  }
  if (word == "mxfp8") {
    *rule = {RowScale::mx, RowCode::e4m3fn, 32};
    return true;
  }
  return read_groups(word, rule);
}

bool read_int8(std::string_view word, RowRule* rule) {
  rule->code = RowCode::int8;
  rule->scale = word == "static" ? RowScale::fixed : RowScale::token;
  return word == "static" || word == "token";
}

bool read_mxfp4(std::string_view word, RowRule* rule) {
  if (word == "fp8") return read_fp8("token", RowCode::e4m3fn, rule);
  return word != "token" && word != "static" && read_fp8(word, RowCode::e4m3fn, rule);
}

bool read_nvfp4(std::string_view word, RowRule* rule) {
  *rule = {RowScale::nv, RowCode::e2m1, 16};
  return word == "nvfp4";
}

}  // namespace

bool row_rule(std::string_view scheme, std::string_view word, RowRule* rule) {
  *rule = RowRule{};
  if (word.empty() || word == "none") return true;
  constexpr std::pair<std::string_view, RowCode> kFp8[] = {{"fp8_e4m3fn.", RowCode::e4m3fn},
                                                           {"fp8_e4m3fnuz.", RowCode::e4m3fnuz},
                                                           {"fp8_e5m2.", RowCode::e5m2}};
  for (const auto& [begin, code] : kFp8)
    if (take(&scheme, begin)) return read_fp8(word, code, rule);
  if (take(&scheme, "int8.")) return read_int8(word, rule);
  if (take(&scheme, "mxfp4.")) return read_mxfp4(word, rule);
  return take(&scheme, "nvfp4.") && read_nvfp4(word, rule);
}

}  // namespace moert::gpu
