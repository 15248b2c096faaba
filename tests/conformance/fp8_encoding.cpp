// quant_method: encoding to eight-bit floats with scales. Every code must be the nearest under its scale, the scale
// the least that does, and what was decoded must be encoded to the same numbers.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <map>

#include "fp8_weight.hpp"
#include "numbers.hpp"
#include "quant_scaled.hpp"
#include "suite.hpp"

namespace moert::conformance {
namespace {

// What encode wrote: the nearest of the format's numbers under its scale.
void expect_nearest(Fp8Weight& weight, const std::vector<float>& source) {
  const Bytes codes = weight.codes();
  // block -> amax in units of its scale, and that
  std::map<std::pair<int64_t, int64_t>, std::pair<double, double>> largest_of;
  for (int64_t r = 0; r < weight.rows; ++r) {
    for (int64_t c = 0; c < weight.cols; ++c) {
      const auto at = static_cast<size_t>(r * weight.cols + c);
      const double scale = weight.scale(r, c);
      const double want = static_cast<double>(source[at]) / scale;
      const double got = weight.f.value(codes[at]);
      ASSERT_LE(std::fabs(want), weight.f.largest()) << "a scale that is too small for its block";
      auto& largest = largest_of[{weight.f.block_of(r, true), weight.f.block_of(c, false)}];
      largest = {std::max(largest.first, std::fabs(want)), scale};
      double best = HUGE_VAL;
      for (uint32_t code = 0; code < 256; ++code)
        if (const double value = weight.f.value(code); std::isfinite(value))
          best = std::min(best, std::fabs(value - want));
      ASSERT_LE(std::fabs(got - want), best + std::fabs(want) * 0x1p-24)
          << source[at] << " became " << got << " x " << scale;
    }
  }
  for (const auto& [block, each] : largest_of) {
    const auto& [largest, scale] = each;
    if (largest == 0) continue;
    // Powers of two come in steps of 2, the f16 below 2^-14 in steps of their own.
    const bool coarse = weight.f.scale_dtype == MOERT_DTYPE_F8_E8M0 ||
                        (weight.f.scale_dtype == MOERT_DTYPE_F16 && scale <= 0x1p-14);
    const bool least = weight.f.scale_dtype == MOERT_DTYPE_F16 && scale == 0x1p-24;
    EXPECT_GE(largest, least ? 0 : (coarse ? 0.5 : 1 - 0x1p-7) * weight.f.largest())
        << "a scale that is larger than need be, of block " << block.first << ", " << block.second;
  }
}

// The first row is zeros and stays so; what was decoded is encoded to the same numbers again.
void encode_twice(const ScaledFormat& method, std::vector<float> source, int64_t rows,
                  int64_t cols) {
  if (method.table.encode == nullptr) throw Skip{"cannot be written"};
  const Fp8Format f = format_of(method.scheme);
  for (int64_t c = 0; c < cols; ++c) source[static_cast<size_t>(c)] = 0.0f;
  Fp8Weight weight(f, method.scheme, rows, cols), again(f, method.scheme, rows, cols);
  const TensorView from(static_cast<const void*>(source.data()), MOERT_DTYPE_F32, {rows, cols});
  must("encode",
       [&](auto* e) { return method.table.encode(method.self, from, weight.tensor().get(), e); });
  weight.expect_guards();
  expect_nearest(weight, source);
  const std::vector<float> once = decoded_rows(method, weight.tensor().get(), 0, rows, cols, cols);
  for (int64_t c = 0; c < cols; ++c)
    EXPECT_EQ(once[static_cast<size_t>(c)], 0.0f) << "a zero in column " << c << " became a number";
  const TensorView back(static_cast<const void*>(once.data()), MOERT_DTYPE_F32, {rows, cols});
  must("encode again",
       [&](auto* e) { return method.table.encode(method.self, back, again.tensor().get(), e); });
  EXPECT_EQ(bytes_of(decoded_rows(method, again.tensor().get(), 0, rows, cols, cols)),
            bytes_of(once))
      << "what was decoded is encoded otherwise";
  source[3] = std::numeric_limits<float>::quiet_NaN();
  must_fail("a weight that is no number", {MOERT_DATA_LOSS}, [&](auto* e) {
    return method.table.encode(method.self, from, again.tensor().get(), e);
  });
}

// Numbers of 2^(top - spread) to 2^top, a row like another or each row smaller than the one before.
std::vector<float> numbers_to_encode(const std::string& name, int64_t rows, int64_t cols, int top,
                                     int spread, bool falling) {
  std::vector<float> source(static_cast<size_t>(rows * cols));
  Random random(name);
  for (size_t i = 0; i < source.size(); ++i) {
    const int row = falling ? static_cast<int>(i) / static_cast<int>(cols) : 0;
    source[i] = static_cast<float>(
        std::ldexp(random.uniform(), top - row % 36 - static_cast<int>(random.below(spread))));
  }
  return source;
}

void encoding(const ScaledFormat& method) {
  const Fp8Format f = format_of(method.scheme);
  const int64_t rows = odd_size(f.block_rows), cols = odd_size(f.block_cols);
  encode_twice(method, numbers_to_encode("encoding " + method.scheme, rows, cols, 7, 16, false),
               rows, cols);
}

// Blocks whose scales come to the end of the dtype, where an f16 is subnormal.
void small_numbers(const ScaledFormat& method) {
  const Fp8Format f = format_of(method.scheme);
  const int64_t rows = f.block_rows == 1 ? 40 : odd_size(f.block_rows);
  const int64_t cols = odd_size(f.block_cols);
  for (const int top : {0, -8, -17})
    encode_twice(method,
                 numbers_to_encode("small " + method.scheme, rows, cols, top, 2, f.block_rows == 1),
                 rows, cols);
}

void largest_numbers(const ScaledFormat& method) {
  Fp8Weight weight(format_of(method.scheme), method.scheme, 3, 5);
  expect_finite(method, weight.tensor().get(), 3, 5);
}

}  // namespace

const FormatTests& fp8_encoding() {
  static const FormatTests tests = {{"EncodingBlocks", encoding},
                                    {"SmallNumbers", small_numbers},
                                    {"LargestNumbers", largest_numbers}};
  return tests;
}

}  // namespace moert::conformance
