// FP8 weights and activations.
// SPDX-License-Identifier: Apache-2.0
#include "fp8.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <moert/sdk/small_floats.hpp>

#include "view.hpp"

namespace moert::quant {
namespace {

constexpr Fp8Scheme::Element kElements[] = {
    {"e4m3fn", MOERT_DTYPE_F8_E4M3FN, 448, &e4m3fn_to_f32, &f32_to_e4m3fn},
    {"e4m3fnuz", MOERT_DTYPE_F8_E4M3FNUZ, 240, &e4m3fnuz_to_f32, &f32_to_e4m3fnuz},
    {"e5m2", MOERT_DTYPE_F8_E5M2, 57344, &e5m2_to_f32, &f32_to_e5m2},
};
constexpr std::pair<std::string_view, uint32_t> kScaleDtypes[] = {
    {"f32", MOERT_DTYPE_F32}, {"bf16", MOERT_DTYPE_BF16}, {"e8m0", MOERT_DTYPE_F8_E8M0}};
constexpr int64_t kLargestBlock = 65536;
constexpr int64_t kGroup = 128;

// The text up to the next dot, which is taken off with it.
std::string_view take_word(std::string_view* text) {
  const size_t dot = std::min(text->find('.'), text->size());
  const std::string_view word = text->substr(0, dot);
  text->remove_prefix(std::min(dot + 1, text->size()));
  return word;
}

std::optional<int64_t> block_size(std::string_view digits) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool plain = error == std::errc{} && end == digits.data() + digits.size();
  if (!plain || value < 1 || value > kLargestBlock || digits.front() == '0') return std::nullopt;
  return value;
}

std::optional<Blocks> blocks_of(std::string_view word) {
  if (word == "tensor") return Blocks{0, 0};
  if (word == "channel") return Blocks{1, 0};
  constexpr std::string_view kBlock = "block";
  const size_t cross = word.find('x');
  if (word.substr(0, kBlock.size()) != kBlock || cross == std::string_view::npos)
    return std::nullopt;
  const auto rows = block_size(word.substr(kBlock.size(), cross - kBlock.size()));
  const auto cols = block_size(word.substr(cross + 1));
  if (!rows || !cols) return std::nullopt;
  return Blocks{*rows, *cols};
}

}  // namespace

std::optional<Fp8Scheme> Fp8Scheme::parse(std::string_view name, std::string* reason) {
  constexpr std::string_view kPrefix = "fp8_";
  const std::string whole(name);
  if (name.substr(0, kPrefix.size()) != kPrefix) {
    *reason = "scheme '" + whole + "' does not begin with 'fp8_'";
    return std::nullopt;
  }
  name.remove_prefix(kPrefix.size());
  const std::string_view element = take_word(&name), blocks = take_word(&name), scale = name;
  Fp8Scheme scheme;
  for (const Element& each : kElements)
    if (each.name == element) scheme.element = &each;
  for (const auto& [word, dtype] : kScaleDtypes)
    if (word == scale) scheme.scale_dtype = dtype;
  const std::optional<Blocks> parsed = blocks_of(blocks);
  if (parsed) scheme.blocks = *parsed;
  if (scheme.element != nullptr && scheme.scale_dtype != 0 && parsed) return scheme;
  *reason = "scheme '" + whole + "' is not fp8_<e4m3fn|e4m3fnuz|e5m2>" +
            ".<tensor|channel|block<rows>x<cols>>.<f32|bf16|e8m0>";
  return std::nullopt;
}

Support Fp8::supports(const Host& /*host*/, std::string_view scheme) {
  std::string reason;
  return Fp8Scheme::parse(scheme, &reason) ? Support::yes() : Support::no(reason);
}

Fp8::Fp8(const Host& /*host*/, std::string_view scheme, const Options& options) : name_(scheme) {
  std::string reason;
  const std::optional<Fp8Scheme> parsed = Fp8Scheme::parse(scheme, &reason);
  if (!parsed) throw PluginError(MOERT_UNIMPLEMENTED, reason);
  scheme_ = *parsed;
  options.allow({"activations"});
  constexpr std::string_view kWords[] = {"none", "static", "token", "group128"};
  const std::string_view word = options.get("activations", kWords[0]);
  const auto* found = std::find(std::begin(kWords), std::end(kWords), word);
  if (found == std::end(kWords))
    throw PluginError(MOERT_INVALID_ARGUMENT, "activations '" + std::string(word) +
                                                  "', expected none, static, token or group128");
  activations_ = static_cast<Activations>(found - std::begin(kWords));
}

std::vector<moert_quant_param_t> Fp8::parameters(int64_t rows, int64_t cols) const {
  if (rows < 0 || cols < 0)
    throw PluginError(MOERT_INVALID_ARGUMENT, "a weight of " + std::to_string(rows) + " x " +
                                                  std::to_string(cols) + " elements");
  const Blocks& blocks = scheme_.blocks;
  std::vector<moert_quant_param_t> all = {
      {MOERT_PARAM_WEIGHT, 1, scheme_.element->dtype, 2, {rows, cols, 0, 0}},
      {MOERT_PARAM_SCALE,
       1,
       scheme_.scale_dtype,
       2,
       {blocks.down(rows), blocks.right(cols), 0, 0}}};
  if (activations_ == Activations::fixed)
    all.push_back({MOERT_PARAM_INPUT_SCALE, 1, MOERT_DTYPE_F32, 0, {0, 0, 0, 0}});
  return all;
}

Scales Fp8::scales(const moert_tensor_t& weight) const {
  expect_matrix(weight, "the weight", scheme_.element->dtype);
  const moert_tensor_t* scale = nullptr;
  if (weight.quant != nullptr) {
    expect_scheme(*weight.quant, name_, kScale | kInputScale);
    scale = weight.quant->scale;
  }
  return {scale, scheme_.blocks, scheme_.scale_dtype, weight.shape[0], weight.shape[1]};
}

void Fp8::check(const moert_tensor_t& weight) const { scales(weight); }

void Fp8::decode(const moert_tensor_t& weight, int64_t row, int64_t rows, float* out,
                 int64_t out_stride) const {
  const Scales scale = scales(weight);
  expect_rows(weight, row, rows, out, out_stride);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < weight.shape[1]; ++c)
      out[r * out_stride + c] =
          scheme_.element->widen(*element(weight, row + r, c, 1)) * scale.at(row + r, c);
}

void Fp8::encode(const moert_tensor_t& source, const moert_tensor_t& weight) const {
  expect_matrix(weight, "the weight", scheme_.element->dtype);
  expect_matrix(source, "the source", MOERT_DTYPE_F32);
  if (source.shape[0] != weight.shape[0] || source.shape[1] != weight.shape[1])
    throw PluginError(MOERT_INVALID_ARGUMENT, "the source is " + tensor_text(source) +
                                                  ", the weight " + tensor_text(weight));
  const moert_tensor_t* scale = weight.quant != nullptr ? weight.quant->scale : nullptr;
  const Scales scales(scale, scheme_.blocks, scheme_.scale_dtype, weight.shape[0], weight.shape[1],
                      Scales::to_be_written);
  for (int64_t down = 0; down < scheme_.blocks.down(weight.shape[0]); ++down)
    for (int64_t right = 0; right < scheme_.blocks.right(weight.shape[1]); ++right)
      encode_block(source, weight, scales, down, right);
}

void Fp8::encode_block(const moert_tensor_t& source, const moert_tensor_t& weight,
                       const Scales& scales, int64_t down, int64_t right) const {
  const int64_t height = scheme_.blocks.rows == 0 ? weight.shape[0] : scheme_.blocks.rows;
  const int64_t width = scheme_.blocks.cols == 0 ? weight.shape[1] : scheme_.blocks.cols;
  const int64_t first_row = down * height, first_col = right * width;
  const int64_t end_row = std::min(first_row + height, weight.shape[0]);
  const int64_t end_col = std::min(first_col + width, weight.shape[1]);
  float amax = 0;
  for (int64_t r = first_row; r < end_row; ++r)
    for (int64_t c = first_col; c < end_col; ++c)
      amax = std::max(amax, std::fabs(finite_at(source, r, c)));
  const float scale =
      scale_not_below(static_cast<double>(amax) / scheme_.element->largest, scheme_.scale_dtype);
  scales.set(down, right, scale);
  for (int64_t r = first_row; r < end_row; ++r)
    for (int64_t c = first_col; c < end_col; ++c)
      *element(weight, r, c, 1) = scheme_.element->narrow(finite_at(source, r, c) / scale);
}

void Fp8::quantize(float* values, int64_t count, float scale) const {
  for (int64_t i = 0; i < count; ++i)
    if (std::isfinite(values[i]))
      values[i] = scheme_.element->widen(scheme_.element->narrow(values[i] / scale)) * scale;
}

float Fp8::scale_of(const float* values, int64_t count) const {
  float amax = 0;
  for (int64_t i = 0; i < count; ++i)
    if (std::isfinite(values[i])) amax = std::max(amax, std::fabs(values[i]));
  const float largest = scheme_.element->largest;
  return activations_ == Activations::token ? std::max(amax / largest, 1 / (largest * 512))
                                            : std::max(amax, 1e-4f) / largest;
}

void Fp8::quantize_activations(float* rows, int64_t tokens, int64_t cols,
                               const moert_tensor_t* input_scale) const {
  if (activations_ == Activations::none) return;
  if (tokens < 0 || cols < 0 || (rows == nullptr && tokens > 0 && cols > 0))
    throw PluginError(MOERT_INVALID_ARGUMENT, "activations of " + std::to_string(tokens) + " x " +
                                                  std::to_string(cols) + " elements");
  if (activations_ == Activations::fixed) {
    const Scales scale(input_scale, {}, MOERT_DTYPE_F32, 1, 1);
    if (!(scale.of_block(0, 0) > 0))
      throw PluginError(MOERT_DATA_LOSS, "the input scale is " +
                                             std::to_string(scale.of_block(0, 0)) +
                                             ", expected a number above 0");
    return quantize(rows, tokens * cols, scale.of_block(0, 0));
  }
  const int64_t group = activations_ == Activations::token ? std::max<int64_t>(cols, 1) : kGroup;
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t c = 0; c < cols; c += group) {
      float* first = rows + t * cols + c;
      const int64_t count = std::min(group, cols - c);
      quantize(first, count, scale_of(first, count));
    }
}

}  // namespace moert::quant
