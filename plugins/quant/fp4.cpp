// FP4 weights.
// SPDX-License-Identifier: Apache-2.0
#include "fp4.hpp"

#include <algorithm>
#include <cmath>
#include <moert/sdk/small_floats.hpp>

#include "view.hpp"

namespace moert::quant {
namespace {

constexpr Fp4::Scheme kSchemes[] = {
    {"mxfp4.g32.e8m0", 32, MOERT_DTYPE_F8_E8M0, false},
    {"nvfp4.g16.e4m3fn", 16, MOERT_DTYPE_F8_E4M3FN, true},
};
constexpr float kLargest = 6;

const Fp4::Scheme* scheme_named(std::string_view name) {
  for (const Fp4::Scheme& scheme : kSchemes)
    if (scheme.name == name) return &scheme;
  return nullptr;
}

// One code of a packed matrix.
class Nibble {
 public:
  Nibble(const moert_tensor_t& weight, int64_t row, int64_t col) {
    const int64_t index = row * weight.strides[0] + col * weight.strides[1];
    const bool high_first = (weight.flags & MOERT_TENSOR_HIGH_NIBBLE_FIRST) != 0;
    byte_ = static_cast<unsigned char*>(weight.data) + index / 2;
    shift_ = (index % 2 != 0) != high_first ? 4 : 0;
  }
  uint8_t get() const { return static_cast<uint8_t>((*byte_ >> shift_) & 0xf); }
  void set(uint8_t code) const {
    *byte_ = static_cast<unsigned char>((*byte_ & ~(0xf << shift_)) | (code << shift_));
  }

 private:
  unsigned char* byte_;
  int shift_;
};

void round_up(int64_t& size, int64_t group) {
  if (size < 0 || size > (int64_t{1} << 62))
    throw PluginError(MOERT_INVALID_ARGUMENT, "a width of " + std::to_string(size));
  size = Blocks::along(size, group) * group;
}

}  // namespace

Support Fp4::supports(const Host& /*host*/, std::string_view scheme) {
  if (scheme_named(scheme) != nullptr) return Support::yes();
  return Support::no("scheme '" + std::string(scheme) +
                     "' is neither mxfp4.g32.e8m0 nor nvfp4.g16.e4m3fn");
}

Fp4::Fp4(const Host& host, std::string_view scheme, const Options& options)
    : scheme_(scheme_named(scheme)) {
  if (scheme_ == nullptr) throw PluginError(MOERT_UNIMPLEMENTED, supports(host, scheme).reason);
  options.allow(scheme_->has_global ? std::initializer_list<std::string_view>{"global"}
                                    : std::initializer_list<std::string_view>{});
  const std::string_view word = options.get("global", "multiply");
  if (word != "multiply" && word != "divide")
    throw PluginError(MOERT_INVALID_ARGUMENT,
                      "global '" + std::string(word) + "', expected multiply or divide");
  divides_ = word == "divide";
}

std::vector<moert_quant_param_t> Fp4::parameters(int64_t rows, int64_t cols) const {
  if (rows < 0 || cols < 0 || cols % scheme_->group != 0)
    throw PluginError(MOERT_INVALID_ARGUMENT, "a weight of " + std::to_string(rows) + " x " +
                                                  std::to_string(cols) +
                                                  " elements, expected rows of whole groups of " +
                                                  std::to_string(scheme_->group));
  std::vector<moert_quant_param_t> all = {
      {MOERT_PARAM_WEIGHT, 1, MOERT_DTYPE_F4_E2M1, 2, {rows, cols, 0, 0}},
      {MOERT_PARAM_SCALE, 1, scheme_->scale_dtype, 2, {rows, cols / scheme_->group, 0, 0}}};
  if (scheme_->has_global) all.push_back({MOERT_PARAM_SCALE2, 1, MOERT_DTYPE_F32, 0, {0, 0, 0, 0}});
  return all;
}

void Fp4::round_sizes(int64_t& hidden, int64_t& intermediate) const {
  round_up(hidden, scheme_->group);
  round_up(intermediate, scheme_->group);
}

void Fp4::expect_codes(const moert_tensor_t& weight) const {
  expect_matrix(weight, "the weight", MOERT_DTYPE_F4_E2M1);
  if (weight.shape[1] % scheme_->group != 0)
    throw PluginError(MOERT_DATA_LOSS, "the weight is " + tensor_text(weight) +
                                           ", expected rows of whole groups of " +
                                           std::to_string(scheme_->group));
  if (weight.quant != nullptr)
    expect_scheme(*weight.quant, scheme_->name, kScale | (scheme_->has_global ? kScale2 : 0));
}

Scales Fp4::scales(const moert_tensor_t& weight) const {
  expect_codes(weight);
  const moert_tensor_t* scale = weight.quant != nullptr ? weight.quant->scale : nullptr;
  return {scale, {1, scheme_->group}, scheme_->scale_dtype, weight.shape[0], weight.shape[1]};
}

float Fp4::global(const moert_tensor_t& weight) const {
  if (!scheme_->has_global) return 1;
  const moert_tensor_t* scale = weight.quant != nullptr ? weight.quant->scale2 : nullptr;
  const float value = Scales(scale, {}, MOERT_DTYPE_F32, 1, 1).of_block(0, 0);
  if (!(value > 0))
    throw PluginError(MOERT_DATA_LOSS, "the second scale is " + std::to_string(value) +
                                           ", expected a number above 0");
  return value;
}

void Fp4::check(const moert_tensor_t& weight) const {
  scales(weight);
  global(weight);
}

void Fp4::decode(const moert_tensor_t& weight, int64_t row, int64_t rows, float* out,
                 int64_t out_stride) const {
  const Scales scale = scales(weight);
  const float whole = global(weight);
  expect_rows(weight, row, rows, out, out_stride);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < weight.shape[1]; ++c) {
      // Exact in f32, so that only the global scale rounds.
      const float value = e2m1_to_f32(Nibble(weight, row + r, c).get()) * scale.at(row + r, c);
      out[r * out_stride + c] = divides_ ? value / whole : value * whole;
    }
  }
}

void Fp4::encode(const moert_tensor_t& source, const moert_tensor_t& weight) const {
  if (scheme_->has_global)
    throw PluginError(MOERT_UNIMPLEMENTED, std::string(scheme_->name) + " cannot be written");
  expect_codes(weight);
  expect_matrix(source, "the source", MOERT_DTYPE_F32);
  if (source.shape[0] != weight.shape[0] || source.shape[1] != weight.shape[1])
    throw PluginError(MOERT_INVALID_ARGUMENT, "the source is " + tensor_text(source) +
                                                  ", the weight " + tensor_text(weight));
  const moert_tensor_t* scale = weight.quant != nullptr ? weight.quant->scale : nullptr;
  const Scales scales(scale, {1, scheme_->group}, scheme_->scale_dtype, weight.shape[0],
                      weight.shape[1], Scales::to_be_written);
  for (int64_t row = 0; row < weight.shape[0]; ++row)
    for (int64_t group = 0; group < weight.shape[1] / scheme_->group; ++group)
      encode_group(source, weight, scales, row, group);
}

void Fp4::encode_group(const moert_tensor_t& source, const moert_tensor_t& weight,
                       const Scales& scales, int64_t row, int64_t group) const {
  const int64_t first = group * scheme_->group;
  float amax = 0;
  for (int64_t c = first; c < first + scheme_->group; ++c)
    amax = std::max(amax, std::fabs(finite_at(source, row, c)));
  const float scale = scale_not_below(static_cast<double>(amax) / kLargest, scheme_->scale_dtype);
  scales.set(row, group, scale);
  for (int64_t c = first; c < first + scheme_->group; ++c)
    Nibble(weight, row, c).set(f32_to_e2m1(finite_at(source, row, c) / scale));
}

}  // namespace moert::quant
