// FP4 weights.
// SPDX-License-Identifier: Apache-2.0
#include "fp4.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <moert/sdk/small_floats.hpp>

#include "activations.hpp"
#include "view.hpp"
#include "words.hpp"

namespace moert::quant {
namespace {

constexpr Fp4::Scheme kSchemes[] = {
    {"mxfp4.g32.e8m0", 32, MOERT_DTYPE_F8_E8M0, false},
    {"nvfp4.g16.e4m3fn", 16, MOERT_DTYPE_F8_E4M3FN, true},
};
constexpr double kLargest = 6;
// Of a global scale that is written: with so few bits code x scale x global is exact in f32.
constexpr int kGlobalBits = 16;
constexpr double kLeastGlobal = 0x1p-100;

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
  if (scheme_->has_global) {
    options.allow({"activations", "global"});
    divides_ = choice(options, "global", {"multiply", "divide"}) == 1;
    if (choice(options, "activations", {"none", "nvfp4"}) == 1) activations_ = Way::nvfp4;
  } else {
    options.allow({"activations"});
    if (const auto groups = Fp8Groups::parse(options.get("activations", "none"))) {
      activations_ = Way::groups;
      groups_ = *groups;
      return;
    }
    constexpr Way kWays[] = {Way::none, Way::mxfp8, Way::fp8};
    activations_ = kWays[choice(options, "activations", {"none", "mxfp8", "fp8"})];
  }
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
  if (activations_ == Way::nvfp4)
    all.push_back({MOERT_PARAM_INPUT_SCALE, 1, MOERT_DTYPE_F32, 0, {0, 0, 0, 0}});
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
    expect_scheme(*weight.quant, scheme_->name,
                  kScale | (scheme_->has_global ? kScale2 | kInputScale : 0));
}

Scales Fp4::scales(const moert_tensor_t& weight) const {
  expect_codes(weight);
  const moert_tensor_t* scale = weight.quant != nullptr ? weight.quant->scale : nullptr;
  return {scale, {1, scheme_->group}, scheme_->scale_dtype, weight.shape[0], weight.shape[1]};
}

float Fp4::global(const moert_tensor_t& weight) const {
  if (!scheme_->has_global) return 1;
  return positive_scalar(weight.quant != nullptr ? weight.quant->scale2 : nullptr, "second scale");
}

float Fp4::input_scale(const moert_tensor_t* given) const {
  const float scale = positive_scalar(given, "input scale");
  const float used = divides_ ? 1 / scale : scale;
  if (std::isfinite(used)) return used;
  throw PluginError(MOERT_DATA_LOSS, "the input scale is the reciprocal of " +
                                         std::to_string(scale) + ", which is no number");
}

void Fp4::check(const moert_tensor_t& weight) const {
  scales(weight);
  global(weight);
  if (activations_ == Way::nvfp4)
    input_scale(weight.quant != nullptr ? weight.quant->input_scale : nullptr);
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
  expect_codes(weight);
  expect_source(source, {weight.shape[0], weight.shape[1]});
  const moert_quant_view_t none{};
  const moert_quant_view_t& quant = weight.quant != nullptr ? *weight.quant : none;
  const Scales scales(quant.scale, {1, scheme_->group}, scheme_->scale_dtype, weight.shape[0],
                      weight.shape[1], Scales::to_be_written);
  const double whole = scheme_->has_global ? encode_global(source, quant.scale2) : 1;
  for (int64_t row = 0; row < weight.shape[0]; ++row)
    for (int64_t group = 0; group < weight.shape[1] / scheme_->group; ++group)
      encode_group(source, weight, scales, whole, row, group);
}

double Fp4::encode_global(const moert_tensor_t& source, const moert_tensor_t* scale2) const {
  const Scales scale(scale2, {}, MOERT_DTYPE_F32, 1, 1, Scales::to_be_written, "second scale");
  double amax = 0;
  for (int64_t row = 0; row < source.shape[0]; ++row)
    amax = std::max(amax, double{amax_of(source, row, 0, source.shape[1])});
  const double most =
      double{std::numeric_limits<float>::max()} * (1 - 0x1p-15);  // rounding stays below
  const double whole = std::max(std::min(amax, most) / kLargest / kE4M3FN.largest, kLeastGlobal);
  const double stored = amax == 0 ? 1 : rounded_to(divides_ ? 1 / whole : whole, kGlobalBits);
  scale.set(0, 0, static_cast<float>(stored));
  return divides_ ? 1 / stored : stored;
}

void Fp4::encode_group(const moert_tensor_t& source, const moert_tensor_t& weight,
                       const Scales& scales, double whole, int64_t row, int64_t group) const {
  const int64_t first = group * scheme_->group;
  const double least = amax_of(source, row, first, scheme_->group) / kLargest / whole;
  const float scale = scheme_->has_global ? scale_near(least, scheme_->scale_dtype, kLargest)
                                          : scale_not_below(least, scheme_->scale_dtype, kLargest);
  scales.set(row, group, scale);
  for (int64_t c = first; c < first + scheme_->group; ++c)
    Nibble(weight, row, c)
        .set(f32_to_e2m1(static_cast<float>(finite_at(source, row, c) / (scale * whole))));
}

void Fp4::quantize_activations(float* rows, int64_t tokens, int64_t cols,
                               const moert_tensor_t* given) const {
  if (activations_ == Way::none) return;
  const Activations of(rows, tokens, cols);
  switch (activations_) {
    case Way::none: return;
    case Way::mxfp8: return mxfp8(of);
    case Way::fp8: return fp8_by_token(of, kE4M3FN);
    case Way::groups: return fp8_by_group(of, kE4M3FN, groups_);
    case Way::nvfp4: return nvfp4(of, input_scale(given));
  }
}

}  // namespace moert::quant
