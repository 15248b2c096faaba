// Formats whose elements are plain numbers: one conversion each, everything else is the same.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstring>
#include <moert/sdk/quant_method.hpp>
#include <string>

#include "view.hpp"

namespace moert::quant {

// Format names its scheme (kScheme), its dtype (kDtype) and its Element, and converts one element:
// static float decode(Element), static Element encode(float). kLargest is its largest finite number.
template <class Format>
class Plain : public QuantMethod {
 public:
  static Support supports(const Host&, std::string_view scheme) {
    if (scheme == Format::kScheme) return Support::yes();
    return Support::no("scheme '" + std::string(scheme) + "' is not '" +
                       std::string(Format::kScheme) + "'");
  }
  // Public, since the formats inherit it as their own constructor.
  // NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility)
  Plain(const Host& host, std::string_view scheme, const Options& options) {
    const Support answer = supports(host, scheme);
    if (!answer.verdict) throw PluginError(MOERT_UNIMPLEMENTED, answer.reason);
    options.allow({});
  }

  std::vector<moert_quant_param_t> parameters(int64_t rows, int64_t cols) const override {
    if (rows < 0 || cols < 0)
      throw PluginError(MOERT_INVALID_ARGUMENT, "a weight of " + std::to_string(rows) + " x " +
                                                    std::to_string(cols) + " elements");
    return {{MOERT_PARAM_WEIGHT, 1, Format::kDtype, 2, {rows, cols, 0, 0}}};
  }

  void check(const moert_tensor_t& weight) const override {
    expect_matrix(weight, "the weight", Format::kDtype);
    expect_plain(weight, Format::kScheme);
  }

  void decode(const moert_tensor_t& weight, int64_t row, int64_t rows, float* out,
              int64_t out_stride) const override {
    check(weight);
    expect_rows(weight, row, rows, out, out_stride);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < weight.shape[1]; ++c) {
        typename Format::Element bits;
        std::memcpy(&bits, element(weight, row + r, c, sizeof bits), sizeof bits);
        out[r * out_stride + c] = Format::decode(bits);
      }
    }
  }

  void encode(const moert_tensor_t& source, const moert_tensor_t& weight) const override {
    check(weight);
    expect_source(source, {weight.shape[0], weight.shape[1]});
    for (int64_t r = 0; r < source.shape[0]; ++r) {
      for (int64_t c = 0; c < source.shape[1]; ++c) {
        float value = 0;
        std::memcpy(&value, element(source, r, c, sizeof value), sizeof value);
        const typename Format::Element bits = Format::encode(saturated(value));
        std::memcpy(element(weight, r, c, sizeof bits), &bits, sizeof bits);
      }
    }
  }

 private:
  // A finite number stays finite; infinity and NaN are what they are.
  static float saturated(float value) {
    if (!std::isfinite(value) || std::fabs(value) <= Format::kLargest) return value;
    return std::copysign(Format::kLargest, value);
  }
};

}  // namespace moert::quant
