// The words by which formats and their blocks are called.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include "weights/formats.hpp"

namespace moert::weights {
namespace {

using spec::WeightFormat;

constexpr std::string_view kKinds[] = {"none", "fp8",         "mxfp8",     "mxfp4",   "nvfp4",
                                       "int8", "int4_packed", "int4_gptq", "int4_awq"};
constexpr int64_t kLargestBlock = 65536;

std::optional<int64_t> size_of(std::string_view digits) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (!whole || value < 1 || value > kLargestBlock) return std::nullopt;
  return value;
}

}  // namespace

bool is_known_kind(const std::string& kind) {
  return std::find(std::begin(kKinds), std::end(kKinds), kind) != std::end(kKinds);
}

WeightFormat announced_by(const std::string& scheme) {
  const size_t end = std::min(scheme.find('.'), scheme.size());
  const std::string first = scheme.substr(0, end);
  WeightFormat format;
  format.kind = first == "fp8" || first.starts_with("fp8_") ? "fp8" : first;
  if (!is_known_kind(format.kind)) {
    format.kind = scheme;
    return format;
  }
  if (end == scheme.size()) return format;
  const std::string rest = scheme.substr(end + 1);
  format.blocks = rest.substr(0, rest.find('.'));
  return format;
}

std::optional<BlockSize> block_size_of(const std::string& word) {
  if (word == "tensor") return BlockSize{0, 0};
  if (word == "channel") return BlockSize{1, 0};
  if (word.starts_with("g")) {
    const auto cols = size_of(std::string_view(word).substr(1));
    if (cols) return BlockSize{1, *cols};
  }
  const size_t cross = word.find('x');
  if (!word.starts_with("block") || cross == std::string::npos) return std::nullopt;
  const auto rows = size_of(std::string_view(word).substr(5, cross - 5));
  const auto cols = size_of(std::string_view(word).substr(cross + 1));
  if (!rows || !cols) return std::nullopt;
  return BlockSize{*rows, *cols};
}

}  // namespace moert::weights
