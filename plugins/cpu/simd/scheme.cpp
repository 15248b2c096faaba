// Which weight formats cpu.simd reads, and how each of them lies in its panels.
// SPDX-License-Identifier: Apache-2.0
#include "scheme.hpp"

#include <moert/abi/tensor.h>

#include <charconv>
#include <utility>

namespace moert::cpu::simd {
namespace {

// The word before the next point, which is taken away with it.
std::string_view take_word(std::string_view* text) {
  const size_t end = std::min(text->find('.'), text->size());
  const std::string_view word = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return word;
}

// As quant methods read sizes: 1 to 65536, without a zero before them.
bool take_number(std::string_view* text, int64_t* number) {
  constexpr int64_t kMost = 65536;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc() || *number < 1 || *number > kMost || text->front() == '0') return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

bool take(std::string_view* text, std::string_view word) {
  if (text->substr(0, word.size()) != word) return false;
  text->remove_prefix(word.size());
  return true;
}

bool read_blocks(std::string_view word, WeightScheme* scheme) {
  if (word == "tensor") return true;
  if (word == "channel") {
    scheme->block_rows = 1;
    return true;
  }
  return take(&word, "block") && take_number(&word, &scheme->block_rows) && take(&word, "x") &&
         take_number(&word, &scheme->block_cols) && word.empty();
}

uint32_t scale_dtype_of(std::string_view word) {
  constexpr std::pair<std::string_view, uint32_t> kScales[] = {{"f32", MOERT_DTYPE_F32},
                                                               {"bf16", MOERT_DTYPE_BF16},
                                                               {"f16", MOERT_DTYPE_F16},
                                                               {"e8m0", MOERT_DTYPE_F8_E8M0}};
  for (const auto& [name, dtype] : kScales)
    if (name == word) return dtype;
  return 0;
}

std::optional<WeightScheme> bytes_of(std::string_view name) {
  const std::string_view element = take_word(&name);
  if (element != "fp8_e4m3fn" && element != "int8") return std::nullopt;
  WeightScheme scheme;
  scheme.dtype = element == "int8" ? MOERT_DTYPE_I8 : MOERT_DTYPE_F8_E4M3FN;
  if (!read_blocks(take_word(&name), &scheme)) return std::nullopt;
  scheme.scale_dtype = scale_dtype_of(name);
  const bool by_column = scheme.block_rows == 1;
  if (scheme.scale_dtype == 0 || (!by_column && scheme.block_rows % 32 != 0) ||
      scheme.block_cols % 2 != 0 || scheme.block_cols > kCodeChunk)
    return std::nullopt;
  const Scales scales = !by_column                                  ? Scales::halves
                        : scheme.scale_dtype == MOERT_DTYPE_F8_E8M0 ? Scales::powers
                                                                    : Scales::columns;
  scheme.format = {element == "int8" ? Storage::int8 : Storage::fp8, scheme.block_cols, scales};
  return scheme;
}

}  // namespace

WeightScheme scheme_of(std::string_view name, bool whole_groups) {
  constexpr struct {
    std::string_view name;
    Storage storage;
    uint32_t dtype;
  } kPlain[] = {{"bf16", Storage::bf16, MOERT_DTYPE_BF16},
                {"f16", Storage::f16, MOERT_DTYPE_F16},
                {"f32", Storage::f32, MOERT_DTYPE_F32},
                {"mxfp4.g32.e8m0", Storage::mxfp4, MOERT_DTYPE_F4_E2M1}};
  WeightScheme scheme;
  for (const auto& plain : kPlain) {
    if (plain.name != name || (plain.storage == Storage::mxfp4 && !whole_groups)) continue;
    scheme.format.storage = plain.storage;
    scheme.dtype = plain.dtype;
    return scheme;
  }
  return bytes_of(name).value_or(scheme);
}

std::optional<RowScheme> row_scheme_of(std::string_view word, Storage weights) {
  if (weights == Storage::int8)
    return word == "token" ? std::optional(RowScheme{ScaleRule::integer, 0}) : std::nullopt;
  if (word == "token") return RowScheme{ScaleRule::token, 0};
  if (word == "mxfp8") return RowScheme{ScaleRule::mx, 32};
  RowScheme scheme{ScaleRule::group, 0};
  if (!take(&word, "group") || !take_number(&word, &scheme.group)) return std::nullopt;
  if (take(&word, "_ue8m0")) scheme.rule = ScaleRule::powers;
  return word.empty() ? std::optional(scheme) : std::nullopt;
}

bool fit_rows(const RowScheme& rows, WeightScheme* weights) {
  int64_t& group = weights->format.group;
  if (!is_bytes(weights->format.storage)) return false;
  if (rows.group == 0 || rows.group == group) return true;
  if (group != 0 && rows.group > group) return rows.group % group == 0;
  if (rows.group % 2 != 0 || rows.group > kCodeChunk || (group != 0 && group % rows.group != 0))
    return false;
  group = rows.group;
  return true;
}

}  // namespace moert::cpu::simd
