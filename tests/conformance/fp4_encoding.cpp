// quant_method: encoding to four-bit floats with scales, of MXFP4 by powers of two that are not too small, of NVFP4
// by a global scale of amax / (6 x 448) and the nearest scales of groups.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "fp4_weight.hpp"
#include "numbers.hpp"
#include "quant_packed.hpp"
#include "suite.hpp"

namespace moert::conformance {
namespace {

constexpr int64_t kRows = 24, kGroups = 3;
constexpr float kTies[] = {6, 0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5, -0.25f, -5};
constexpr float kTied[] = {6, 0, 1, 1, 2, 2, 4, 4, 0, -4};

// A row of zeros; halfway points under the scale 1, which 6 x 448 as the largest makes the global one; groups
// of ever smaller numbers.
std::vector<float> numbers_to_encode(const Fp4Weight& weight) {
  std::vector<float> source(static_cast<size_t>(weight.rows * weight.cols));
  Random random("encoding " + weight.scheme);
  for (size_t i = 0; i < source.size(); ++i) {
    const int row = static_cast<int>(i) / static_cast<int>(weight.cols);
    source[i] = static_cast<float>(
        std::ldexp(random.uniform(), 10 - row - static_cast<int>(random.below(4))));
  }
  const auto cols = static_cast<size_t>(weight.cols);
  std::fill_n(source.begin(), cols, 0.0f);
  std::copy(std::begin(kTies), std::end(kTies), &source[cols]);
  std::fill_n(&source[cols + 10], weight.group - 10, 0.0f);
  source[2 * cols + 3] = -6 * 448;
  return source;
}

// What a code is multiplied by.
double step_of(const Fp4Weight& weight, bool divides, int64_t row, int64_t col) {
  const double scale = weight.scale_of(row, col);
  if (is_mx(weight.scheme)) return scale;
  return divides ? scale / double{weight.global} : scale * double{weight.global};
}

void expect_nearest(const Fp4Weight& weight, bool divides, const std::vector<float>& source,
                    const std::vector<float>& got) {
  for (int64_t r = 0; r < weight.rows; ++r) {
    double amax = 0;  // of the group, in units of its scale
    for (int64_t c = 0; c < weight.cols; ++c) {
      const auto at = static_cast<size_t>(r * weight.cols + c);
      const double step = step_of(weight, divides, r, c);
      const double want = double{source[at]} / step;
      amax = std::max(c % weight.group == 0 ? 0 : amax, std::fabs(want));
      double best = HUGE_VAL;
      bool exact = divides;
      for (uint32_t code = 0; code < 16; ++code) {
        best = std::min(best, std::fabs(e2m1_value(code) - want));
        exact = exact || e2m1_value(code) * step == double{got[at]};
      }
      ASSERT_TRUE(exact) << "a global scale of so many bits that products with it are rounded";
      ASSERT_LE(std::fabs(double{got[at]} / step - want), best + std::fabs(want) * 0x1p-22)
          << source[at] << " became " << got[at] << " under " << step;
      if (c % weight.group != weight.group - 1 || amax == 0) continue;
      // Powers of two come in steps of 2, e4m3fn from 2^-6 on in steps of an eighth at most.
      const bool fine = !is_mx(weight.scheme) && weight.scale_of(r, c) > 0x1p-6;
      const bool least = !is_mx(weight.scheme) && weight.scale_of(r, c) == 0x1p-9;
      EXPECT_LE(amax, fine ? 6.5 : 6 * (1 + 0x1p-15)) << "a scale that is too small, row " << r;
      EXPECT_GT(amax, least ? 0 : fine ? 5.5 : 3) << "a scale that is too large, row " << r;
    }
  }
}

void encode(const ScaledFormat& method, const std::vector<float>& source, Fp4Weight& weight) {
  const TensorView from(static_cast<const void*>(source.data()), MOERT_DTYPE_F32,
                        {weight.rows, weight.cols});
  must("encode", [&](auto* e) { return method.table.encode(method.self, from, weight.view, e); });
}

void encoding_by(const ScaledFormat& method, bool divides) {
  Fp4Weight weight(method.scheme, kRows, kGroups), again(method.scheme, kRows, kGroups);
  std::vector<float> source = numbers_to_encode(weight);
  weight.global = again.global = std::numeric_limits<float>::quiet_NaN();
  std::fill(weight.scales.begin(), weight.scales.end(), 0xff);
  std::fill(weight.codes.begin(), weight.codes.end(), 0xff);
  encode(method, source, weight);
  const auto decode = [&](const Fp4Weight& of) {
    return decoded_rows(method, of.view, 0, of.rows, of.cols, of.cols);
  };
  const std::vector<float> once = decode(weight);
  for (int64_t c = 0; c < weight.cols; ++c) EXPECT_EQ(once[static_cast<size_t>(c)], 0.0f);
  for (size_t i = 0; i < std::size(kTied); ++i)
    EXPECT_EQ(once[static_cast<size_t>(weight.cols) + i], kTied[i]) << kTies[i];
  if (!is_mx(method.scheme)) {
    EXPECT_EQ(weight.global, 1.0f);
  }
  expect_nearest(weight, divides, source, once);
  encode(method, once, again);
  EXPECT_EQ(bytes_of(decode(again)), bytes_of(once)) << "what was decoded is encoded otherwise";
  // Other global scales, which are not exact.
  Random random("global " + method.scheme);
  for (int i = 0; i < 20; ++i) {
    const auto factor = static_cast<float>(std::ldexp(random.uniform() + 1.5, -i));
    std::vector<float> other = source;
    for (float& x : other) x *= factor;
    encode(method, other, weight);
    expect_nearest(weight, divides, other, decode(weight));
    encode(method, decode(weight), again);
    EXPECT_EQ(bytes_of(decode(again)), bytes_of(decode(weight))) << "by " << factor;
    if (is_mx(method.scheme)) continue;
    const double whole = divides ? 1 / double{weight.global} : double{weight.global};
    EXPECT_NEAR(whole, double{factor}, 0x1p-15 * double{factor});
  }
  source[5] = HUGE_VALF;
  const TensorView from(static_cast<const void*>(source.data()), MOERT_DTYPE_F32,
                        {weight.rows, weight.cols});
  must_fail("a weight that is no number", {MOERT_DATA_LOSS},
            [&](auto* e) { return method.table.encode(method.self, from, again.view, e); });
}

void encoding(const ScaledFormat& method) {
  if (method.table.encode == nullptr) throw Skip{"cannot be written"};
  encoding_by(method, false);
  if (!is_mx(method.scheme)) encoding_by(Optioned(method, {{"global", "divide"}}).format(), true);
}

void encoding_zeros(const ScaledFormat& method) {
  if (method.table.encode == nullptr) throw Skip{"cannot be written"};
  Fp4Weight weight(method.scheme, 2, 2);
  encode(method, std::vector<float>(static_cast<size_t>(2 * weight.cols), 0.0f), weight);
  must("check", [&](auto* e) { return method.table.check(method.self, weight.view, e); });
  for (const float x : decoded_rows(method, weight.view, 0, 2, weight.cols, weight.cols))
    EXPECT_EQ(x, 0.0f);
}

void largest_numbers(const ScaledFormat& method) {
  Fp4Weight weight(method.scheme, 2, 2);
  expect_finite(method, weight.view, 2, weight.cols);
  if (!is_mx(method.scheme))
    expect_finite(Optioned(method, {{"global", "divide"}}).format(), weight.view, 2, weight.cols);
}

// What has nowhere to go is refused.
void encoding_refuses(const ScaledFormat& method) {
  if (method.table.encode == nullptr) throw Skip{"cannot be written"};
  Fp4Weight weight(method.scheme, 2, 2);
  const std::vector<float> source(static_cast<size_t>(2 * weight.cols), 1.0f);
  const auto refused = [&](const char* what, moert_code_t code, int64_t rows, int64_t cols) {
    const TensorView from(static_cast<const void*>(source.data()), MOERT_DTYPE_F32, {rows, cols});
    must_fail(what, {code},
              [&](auto* e) { return method.table.encode(method.self, from, weight.view, e); });
  };
  refused("a source of other rows", MOERT_INVALID_ARGUMENT, 1, weight.cols);
  refused("a source of other columns", MOERT_INVALID_ARGUMENT, 2, weight.cols - 1);
  if (!is_mx(method.scheme)) {
    weight.quant.scale2 = nullptr;
    refused("no room for the second scale", MOERT_DATA_LOSS, 2, weight.cols);
  }
  weight.quant.scale = nullptr;
  refused("no room for the scales", MOERT_DATA_LOSS, 2, weight.cols);
}

}  // namespace

const FormatTests& fp4_encoding() {
  static const FormatTests tests = {{"EncodingGroups", encoding},
                                    {"LargestNumbers", largest_numbers},
                                    {"EncodingZeros", encoding_zeros},
                                    {"EncodingRefuses", encoding_refuses}};
  return tests;
}

}  // namespace moert::conformance
