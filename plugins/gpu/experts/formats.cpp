// How a problem's weights are kept, and which numbers meet in its matrix products.
// SPDX-License-Identifier: Apache-2.0
#include "formats.hpp"

#include <moert/abi/tensor.h>

#include <charconv>
#include <optional>
#include <utility>

namespace moert::gpu {
namespace {

constexpr int64_t kPanelRows = 16, kChunk = 32;

// The word before the next point, which is taken away with it.
std::string_view take_word(std::string_view* text) {
  const size_t end = std::min(text->find('.'), text->size());
  const std::string_view word = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return word;
}

bool take(std::string_view* text, std::string_view word) {
  if (text->substr(0, word.size()) != word) return false;
  text->remove_prefix(word.size());
  return true;
}

bool take_number(std::string_view* text, int64_t* number) {
  constexpr int64_t kMost = 65536;
  const auto [stopped, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc() || *number < 1 || *number > kMost || text->front() == '0') return false;
  text->remove_prefix(static_cast<size_t>(stopped - text->data()));
  return true;
}

bool read_blocks(std::string_view word, WeightFormat* format) {
  if (word == "tensor") return true;
  if (word == "channel") {
    format->block_rows = 1;
    return true;
  }
  return take(&word, "block") && take_number(&word, &format->block_rows) && take(&word, "x") &&
         take_number(&word, &format->block_cols) && word.empty();
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

std::optional<WeightFormat> fp8_format(std::string_view scheme) {
  if (take_word(&scheme) != "fp8_e4m3fn") return std::nullopt;
  WeightFormat format;
  format.codec = Codec::fp8;
  format.dtype = MOERT_DTYPE_F8_E4M3FN;
  if (!read_blocks(take_word(&scheme), &format)) return std::nullopt;
  format.scale_dtype = scale_dtype_of(scheme);
  const bool by_row = format.block_rows == 1;
  if (format.scale_dtype == 0 || (!by_row && format.block_rows % kPanelRows != 0) ||
      format.block_cols % kChunk != 0)
    return std::nullopt;
  format.scales = by_row ? ScaleKind::per_row : ScaleKind::per_panel;
  return format;
}

}  // namespace

WeightFormat weight_format(std::string_view scheme, Element rows) {
  if (rows == Element::f32) return {};
  if (scheme == "bf16") return {Codec::bf16, ScaleKind::none, MOERT_DTYPE_BF16, 0, 0, 0};
  if (scheme == "mxfp4.g32.e8m0")
    return {Codec::mxfp4, ScaleKind::powers, MOERT_DTYPE_F4_E2M1, MOERT_DTYPE_F8_E8M0, 1, kChunk};
  return fp8_format(scheme).value_or(WeightFormat{});
}

}  // namespace moert::gpu
