// INT8 weights.
// SPDX-License-Identifier: Apache-2.0
#include "int8.hpp"

#include <algorithm>
#include <cmath>

#include "activations.hpp"
#include "view.hpp"
#include "words.hpp"

namespace moert::quant {
namespace {

constexpr double kLargest = 127;

}  // namespace

std::optional<Int8::Scheme> Int8::parse(std::string_view name) {
  if (take_word(&name) != "int8") return std::nullopt;
  const std::string_view blocks = take_word(&name);
  const uint32_t dtype = scale_word(name);
  if (dtype == MOERT_DTYPE_INVALID || dtype == MOERT_DTYPE_F8_E8M0) return std::nullopt;
  if (blocks == "tensor") return Scheme{{0, 0}, dtype};
  if (blocks == "channel") return Scheme{{1, 0}, dtype};
  return std::nullopt;
}

Support Int8::supports(const Host& /*host*/, std::string_view scheme) {
  if (parse(scheme)) return Support::yes();
  return Support::no("scheme '" + std::string(scheme) +
                     "' is not int8.<tensor|channel>.<f32|bf16|f16>");
}

Int8::Int8(const Host& host, std::string_view scheme, const Options& options)
    : name_(scheme), scheme_() {
  const std::optional<Scheme> parsed = parse(scheme);
  if (!parsed) throw PluginError(MOERT_UNIMPLEMENTED, supports(host, scheme).reason);
  scheme_ = *parsed;
  options.allow({"activations"});
  activations_ = static_cast<Way>(choice(options, "activations", {"none", "token", "static"}));
}

std::vector<moert_quant_param_t> Int8::parameters(int64_t rows, int64_t cols) const {
  if (rows < 0 || cols < 0)
    throw PluginError(MOERT_INVALID_ARGUMENT, "a weight of " + std::to_string(rows) + " x " +
                                                  std::to_string(cols) + " elements");
  std::vector<moert_quant_param_t> all = {
      {MOERT_PARAM_WEIGHT, 1, MOERT_DTYPE_I8, 2, {rows, cols, 0, 0}},
      {MOERT_PARAM_SCALE, 1, scheme_.scale_dtype, 2, {scheme_.blocks.down(rows), 1, 0, 0}}};
  if (activations_ == Way::fixed)
    all.push_back({MOERT_PARAM_INPUT_SCALE, 1, MOERT_DTYPE_F32, 0, {0, 0, 0, 0}});
  return all;
}

Scales Int8::scales(const moert_tensor_t& weight, Scales::State state) const {
  expect_matrix(weight, "the weight", MOERT_DTYPE_I8);
  if (weight.quant != nullptr) expect_scheme(*weight.quant, name_, kScale | kInputScale);
  return {weight.quant != nullptr ? weight.quant->scale : nullptr,
          scheme_.blocks,
          scheme_.scale_dtype,
          weight.shape[0],
          weight.shape[1],
          state};
}

void Int8::check(const moert_tensor_t& weight) const {
  scales(weight, Scales::written);
  if (activations_ == Way::fixed)
    positive_scalar(weight.quant != nullptr ? weight.quant->input_scale : nullptr, "input scale");
}

void Int8::decode(const moert_tensor_t& weight, int64_t row, int64_t rows, float* out,
                  int64_t out_stride) const {
  const Scales scale = scales(weight, Scales::written);
  expect_rows(weight, row, rows, out, out_stride);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < weight.shape[1]; ++c)
      out[r * out_stride + c] =
          static_cast<float>(static_cast<int8_t>(*element(weight, row + r, c, 1))) *
          scale.at(row + r, c);
}

void Int8::encode(const moert_tensor_t& source, const moert_tensor_t& weight) const {
  const Scales scales = this->scales(weight, Scales::to_be_written);
  const int64_t rows = weight.shape[0], cols = weight.shape[1];
  expect_source(source, {rows, cols});
  const int64_t height = scheme_.blocks.rows == 0 ? rows : scheme_.blocks.rows;
  for (int64_t down = 0; down < scheme_.blocks.down(rows); ++down) {
    const int64_t first = down * height, end = first + height;
    float amax = 0;
    for (int64_t r = first; r < end; ++r) amax = std::max(amax, amax_of(source, r, 0, cols));
    const double scale = scale_near(amax / kLargest, scheme_.scale_dtype, kLargest);
    scales.set(down, 0, static_cast<float>(scale));
    for (int64_t r = first; r < end; ++r)
      for (int64_t c = 0; c < cols; ++c) {
        const double code = std::clamp(finite_at(source, r, c) / scale, -kLargest, kLargest);
        *element(weight, r, c, 1) =
            static_cast<unsigned char>(static_cast<int8_t>(std::nearbyint(code)));
      }
  }
}

void Int8::quantize_activations(float* rows, int64_t tokens, int64_t cols,
                                const moert_tensor_t* input_scale) const {
  if (activations_ == Way::none) return;
  const Activations of(rows, tokens, cols);
  if (activations_ == Way::token) return int8_by_token(of);
  int8_by_scale(of, positive_scalar(input_scale, "input scale"));
}

}  // namespace moert::quant
