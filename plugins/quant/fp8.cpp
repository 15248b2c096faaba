// FP8 weights.
// SPDX-License-Identifier: Apache-2.0
#include "fp8.hpp"

#include <algorithm>
#include <cmath>
#include <moert/sdk/small_floats.hpp>

#include "view.hpp"
#include "words.hpp"

namespace moert::quant {
namespace {

constexpr Fp8Element kElements[] = {
    kE4M3FN,
    {"e4m3fnuz", MOERT_DTYPE_F8_E4M3FNUZ, 240, &e4m3fnuz_to_f32, &f32_to_e4m3fnuz},
    {"e5m2", MOERT_DTYPE_F8_E5M2, 57344, &e5m2_to_f32, &f32_to_e5m2},
};

std::optional<Blocks> blocks_of(std::string_view word) {
  if (word == "tensor") return Blocks{0, 0};
  if (word == "channel") return Blocks{1, 0};
  constexpr std::string_view kBlock = "block";
  const size_t cross = word.find('x');
  if (word.substr(0, kBlock.size()) != kBlock || cross == std::string_view::npos)
    return std::nullopt;
  const auto rows = size_word(word.substr(kBlock.size(), cross - kBlock.size()));
  const auto cols = size_word(word.substr(cross + 1));
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
  for (const Fp8Element& each : kElements)
    if (each.name == element) scheme.element = &each;
  scheme.scale_dtype = scale_word(scale);
  const std::optional<Blocks> parsed = blocks_of(blocks);
  if (parsed) scheme.blocks = *parsed;
  if (scheme.element != nullptr && scheme.scale_dtype != 0 && parsed) return scheme;
  *reason = "scheme '" + whole + "' is not fp8_<e4m3fn|e4m3fnuz|e5m2>" +
            ".<tensor|channel|block<rows>x<cols>>.<f32|bf16|f16|e8m0>";
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
  options.allow({"activations", "global"});
  if (const auto groups = Fp8Groups::parse(options.get("activations", "none"))) {
    activations_ = Way::groups;
    groups_ = *groups;
  } else {
    constexpr Way kWays[] = {Way::none, Way::fixed, Way::token, Way::mxfp8};
    activations_ = kWays[choice(options, "activations", {"none", "static", "token", "mxfp8"})];
  }
  global_ = static_cast<Global>(choice(options, "global", {"none", "multiply", "divide"}));
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
  if (global_ != Global::none)
    all.push_back({MOERT_PARAM_SCALE2, 1, MOERT_DTYPE_F32, 0, {0, 0, 0, 0}});
  if (activations_ == Way::fixed)
    all.push_back({MOERT_PARAM_INPUT_SCALE, 1, MOERT_DTYPE_F32, 0, {0, 0, 0, 0}});
  return all;
}

Scales Fp8::scales(const moert_tensor_t& weight) const {
  expect_matrix(weight, "the weight", scheme_.element->dtype);
  const moert_tensor_t* scale = nullptr;
  if (weight.quant != nullptr) {
    expect_scheme(*weight.quant, name_,
                  kScale | kInputScale | (global_ != Global::none ? kScale2 : 0));
    scale = weight.quant->scale;
  }
  return {scale, scheme_.blocks, scheme_.scale_dtype, weight.shape[0], weight.shape[1]};
}

float Fp8::global(const moert_tensor_t& weight) const {
  if (global_ == Global::none) return 1;
  return positive_scalar(weight.quant != nullptr ? weight.quant->scale2 : nullptr, "second scale");
}

void Fp8::check(const moert_tensor_t& weight) const {
  scales(weight);
  global(weight);
  if (activations_ == Way::fixed)
    positive_scalar(weight.quant != nullptr ? weight.quant->input_scale : nullptr, "input scale");
}

void Fp8::decode(const moert_tensor_t& weight, int64_t row, int64_t rows, float* out,
                 int64_t out_stride) const {
  const Scales scale = scales(weight);
  const float whole = global(weight);
  expect_rows(weight, row, rows, out, out_stride);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < weight.shape[1]; ++c) {
      const float value =
          scheme_.element->widen(*element(weight, row + r, c, 1)) * scale.at(row + r, c);
      out[r * out_stride + c] = global_ == Global::divide ? value / whole : value * whole;
    }
}

void Fp8::encode(const moert_tensor_t& source, const moert_tensor_t& weight) const {
  if (global_ != Global::none)
    throw PluginError(MOERT_UNIMPLEMENTED, name_ + " with a global scale cannot be written");
  expect_matrix(weight, "the weight", scheme_.element->dtype);
  expect_source(source, {weight.shape[0], weight.shape[1]});
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
    amax = std::max(amax, amax_of(source, r, first_col, end_col - first_col));
  const double largest = scheme_.element->largest;
  const float scale = scale_not_below(amax / largest, scheme_.scale_dtype, largest);
  scales.set(down, right, scale);
  for (int64_t r = first_row; r < end_row; ++r)
    for (int64_t c = first_col; c < end_col; ++c)
      *element(weight, r, c, 1) = scheme_.element->narrow(finite_at(source, r, c) / scale);
}

void Fp8::quantize_activations(float* rows, int64_t tokens, int64_t cols,
                               const moert_tensor_t* input_scale) const {
  if (activations_ == Way::none) return;
  const Activations of(rows, tokens, cols);
  switch (activations_) {
    case Way::none: return;
    case Way::fixed:
      return fp8_by_scale(of, *scheme_.element, positive_scalar(input_scale, "input scale"));
    case Way::token: return fp8_by_token(of, *scheme_.element);
    case Way::groups: return fp8_by_group(of, *scheme_.element, groups_);
    case Way::mxfp8: return mxfp8(of);
  }
}

}  // namespace moert::quant
