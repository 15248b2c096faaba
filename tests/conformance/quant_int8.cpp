// quant_method: eight-bit integers with scales, "int8.<tensor|channel>.<f32|bf16|f16>".
// SPDX-License-Identifier: Apache-2.0
#include "quant_int8.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "numbers.hpp"
#include "quant_activations.hpp"
#include "suite.hpp"

namespace moert::conformance {
namespace {

struct Form {
  uint32_t scale_dtype = 0;
  bool by_row = false;
};

Form form_of(const std::string& scheme) {
  for (const bool by_row : {false, true})
    for (const uint32_t dtype : {MOERT_DTYPE_F32, MOERT_DTYPE_BF16, MOERT_DTYPE_F16})
      if (scheme ==
          std::string("int8.") + (by_row ? "channel." : "tensor.") + std::string(dtype_name(dtype)))
        return {dtype, by_row};
  return {};
}

// Memory with guards, full of 0xff until it is written.
class Weight {
 public:
  Weight(const std::string& scheme, int64_t row_count, int64_t col_count)
      : form(form_of(scheme)),
        rows(row_count),
        cols(col_count),
        codes(place_, MOERT_DTYPE_I8, {rows, cols}),
        scales(place_, form.scale_dtype, {form.by_row ? rows : 1, 1}) {
    quant.struct_size = sizeof quant;
    quant.scheme = scheme.c_str();
    quant.layout = "canonical";
    quant.scale = scales.get();
    codes.view().set_quant(&quant);
  }
  void draw(Random& random) {
    Bytes bytes(static_cast<size_t>(rows * cols));
    for (auto& byte : bytes) byte = static_cast<unsigned char>(random.below(256));
    codes.buffer().write(bytes);
    std::vector<double> numbers(form.by_row ? static_cast<size_t>(rows) : 1);
    for (double& x : numbers)
      x = std::ldexp(random.uniform() + 1.5, static_cast<int>(random.below(20)) - 10);
    scales.buffer().write(rounded(form.scale_dtype, numbers).bytes);
  }
  std::vector<int8_t> integers() const { return values_of<int8_t>(codes.read()); }
  double scale(int64_t row) const {
    return decoded(form.scale_dtype, scales.read())[form.by_row ? static_cast<size_t>(row) : 0];
  }
  void expect_guards() const {
    codes.buffer().expect_guards("the weight");
    scales.buffer().expect_guards("the scale");
  }

 private:
  Place place_{nullptr};

 public:
  const Form form;
  const int64_t rows, cols;
  mutable Tensor codes, scales;
  moert_quant_view_t quant{};
};

void parameters(const ScaledFormat& method) {
  const auto all = parameters_of(method, 7, 33);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].dtype, uint32_t{MOERT_DTYPE_I8});
  EXPECT_EQ(all[0].shape[0], 7);
  EXPECT_EQ(all[0].shape[1], 33);
  EXPECT_EQ(all[1].param, uint32_t{MOERT_PARAM_SCALE});
  EXPECT_EQ(all[1].required, 1u);
  EXPECT_EQ(all[1].dtype, form_of(method.scheme).scale_dtype);
  EXPECT_EQ(all[1].shape[0], form_of(method.scheme).by_row ? 7 : 1);
  EXPECT_EQ(all[1].shape[1], 1);
}

// Every code, rows from the middle, rows of the destination apart, the view as it lies and transposed.
void every_code(const ScaledFormat& method) {
  constexpr int64_t kSize = 19;
  Weight weight(method.scheme, kSize, kSize);
  Random random("every " + method.scheme);
  weight.draw(random);
  Bytes bytes(kSize * kSize);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i);
  weight.codes.buffer().write(bytes);
  for (const bool transposed : {false, true}) {
    if (transposed) {
      weight.codes.view().set_stride(0, 1, bytes.size());
      weight.codes.view().set_stride(1, kSize, bytes.size());
    }
    const auto got = decoded_rows(method, weight.codes.get(), 2, kSize - 3, kSize, kSize + 2);
    for (int64_t r = 0; r < kSize - 3; ++r)
      for (int64_t c = 0; c < kSize; ++c) {
        const auto at = static_cast<size_t>(transposed ? c * kSize + r + 2 : (r + 2) * kSize + c);
        const int code = bytes[at] < 128 ? bytes[at] : bytes[at] - 256;
        EXPECT_EQ(got[static_cast<size_t>(r * (kSize + 2) + c)],
                  static_cast<float>(code * weight.scale(r + 2)))
            << "row " << r + 2 << ", column " << c;
      }
  }
  weight.expect_guards();
}

void refuses(const ScaledFormat& method) {
  Weight weight(method.scheme, 3, 5);
  Random random("refuses " + method.scheme);
  weight.draw(random);
  const moert_quant_view_t good = weight.quant;
  const moert_tensor_t* view = weight.codes.get();
  const auto refused = [&](const char* what, const moert_tensor_t* t) {
    must_refuse(method, what, t, 5);
    weight.quant = good;
  };
  must("check", [&](auto* e) { return method.table.check(method.self, view, e); });
  const Bytes zeros(256, 0);
  const void* data = zeros.data();
  TensorView unsigned_codes(data, MOERT_DTYPE_U8, {3, 5}), vector(data, MOERT_DTYPE_I8, {15});
  unsigned_codes.set_quant(&weight.quant);
  vector.set_quant(&weight.quant);
  refused("codes without a sign", unsigned_codes);
  refused("a vector", vector);
  moert_tensor_t cut = *view;
  cut.bytes -= 1;
  refused("one byte too few", &cut);
  weight.quant.scale = nullptr;
  refused("no scale", view);
  const int64_t down = good.scale->shape[0];
  const TensorView tall(data, weight.form.scale_dtype, {down + 1, 1});
  const TensorView wide(data, weight.form.scale_dtype, {down, 2});
  const TensorView other(data, MOERT_DTYPE_F8_E8M0, {down, 1});
  for (const moert_tensor_t* scale : {tall.get(), wide.get(), other.get()}) {
    weight.quant.scale = scale;
    refused("a scale of another shape or dtype", view);
  }
  for (auto companion : {&moert_quant_view_t::scale2, &moert_quant_view_t::zero_point,
                         &moert_quant_view_t::group_index}) {
    weight.quant.*companion = good.scale;
    refused("a companion that the format does not have", view);
  }
  weight.quant.scheme = "bf16";
  refused("another scheme", view);
  weight.scales.buffer().write(Bytes(weight.scales.read().size(), 0xff));
  refused("a scale that is no number", view);
}

void static_input(const ScaledFormat& method) {
  const Optioned object(method, {{"activations", "static"}});
  Weight weight(method.scheme, 3, 5);
  Random random("static " + method.scheme);
  weight.draw(random);
  expect_input_scale(object.format(), weight.codes.get(), weight.quant, 3, 5);
}

void expect_nearest(const Weight& weight, const std::vector<float>& source) {
  const std::vector<int8_t> codes = weight.integers();
  for (int64_t first = 0, rows = 0; first < weight.rows; first += rows) {
    rows = weight.form.by_row ? 1 : weight.rows;
    const double scale = weight.scale(first);
    double amax = 0;
    for (int64_t i = first * weight.cols; i < (first + rows) * weight.cols; ++i) {
      const double want = double{source[static_cast<size_t>(i)]} / scale;
      const double code = codes[static_cast<size_t>(i)];
      amax = std::max(amax, std::fabs(want));
      ASSERT_EQ(code, std::clamp(std::nearbyint(want), -127.0, 127.0)) << want;
    }
    // Rounded to bf16 the scale is 2^-8 off at most; below 2^-14 f16 has powers of two.
    const bool coarse = weight.form.scale_dtype == MOERT_DTYPE_F16 && scale <= 0x1p-14;
    const bool least = weight.form.scale_dtype == MOERT_DTYPE_F16 && scale == 0x1p-24;
    EXPECT_LE(amax, coarse ? 127.1 : 127.5) << "a scale that is too small, row " << first;
    if (amax > 0 && !least) {
      EXPECT_GE(amax, coarse ? 63.4 : 126.5) << "a scale that is too large, row " << first;
    }
  }
}

void encoding(const ScaledFormat& method) {
  if (method.table.encode == nullptr) throw Skip{"cannot be written"};
  constexpr int64_t kRows = 41, kCols = 37;
  Random random("encoding " + method.scheme);
  for (const int top : {8, -3, -20}) {
    std::vector<float> source(kRows * kCols);
    for (size_t i = 0; i < source.size(); ++i)
      source[i] =
          static_cast<float>(std::ldexp(random.uniform(), top - static_cast<int>(i) / kCols / 2));
    std::fill_n(source.begin(), kCols, 0.0f);
    Weight weight(method.scheme, kRows, kCols), again(method.scheme, kRows, kCols);
    const auto encode = [&](const std::vector<float>& numbers, Weight& into) {
      const TensorView from(static_cast<const void*>(numbers.data()), MOERT_DTYPE_F32,
                            {kRows, kCols});
      must("encode",
           [&](auto* e) { return method.table.encode(method.self, from, into.codes.get(), e); });
      into.expect_guards();
      return decoded_rows(method, into.codes.get(), 0, kRows, kCols, kCols);
    };
    const std::vector<float> once = encode(source, weight);
    expect_nearest(weight, source);
    for (int64_t c = 0; c < kCols; ++c) EXPECT_EQ(once[static_cast<size_t>(c)], 0.0f);
    EXPECT_EQ(bytes_of(encode(once, again)), bytes_of(once)) << "encoded otherwise again";
  }
  Weight weight(method.scheme, 1, 2);
  for (const float wrong : {HUGE_VALF, std::numeric_limits<float>::quiet_NaN()}) {
    const float source[2] = {1, wrong};
    const TensorView from(static_cast<const void*>(source), MOERT_DTYPE_F32, {1, 2});
    must_fail("a weight that is no number", {MOERT_DATA_LOSS}, [&](auto* e) {
      return method.table.encode(method.self, from, weight.codes.get(), e);
    });
  }
}

void largest_numbers(const ScaledFormat& method) {
  Weight weight(method.scheme, 3, 5);
  expect_finite(method, weight.codes.get(), 3, 5);
}

}  // namespace

bool is_int8(const std::string& scheme) { return form_of(scheme).scale_dtype != 0; }

const FormatTests& int8_tests() {
  static const FormatTests tests = [] {
    FormatTests all = {{"ScaleParameters", parameters}, {"EveryCode", every_code},
                       {"RefusesScales", refuses},      {"StaticInput", static_input},
                       {"EncodingRows", encoding},      {"LargestNumbers", largest_numbers}};
    all.insert(all.end(), int8_activations().begin(), int8_activations().end());
    return all;
  }();
  return tests;
}

}  // namespace moert::conformance
