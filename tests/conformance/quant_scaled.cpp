// quant_method: formats of eight-bit floats with scales, "fp8_<element>.<blocks>.<scale>". Values are
// computed from the definition of the fields, scales from the blocks that the name speaks of.
// SPDX-License-Identifier: Apache-2.0
#include "quant_scaled.hpp"

#include <cmath>
#include <limits>

#include "fp8_weight.hpp"
#include "host.hpp"
#include "numbers.hpp"
#include "quant_activations.hpp"
#include "suite.hpp"

namespace moert::conformance {
namespace {

void expect_number(float got, double want, const std::string& where) {
  if (std::isnan(want))
    EXPECT_TRUE(std::isnan(got)) << where;
  else
    EXPECT_EQ(static_cast<double>(got), static_cast<double>(static_cast<float>(want))) << where;
}

void parameters(const ScaledFormat& method) {
  const Fp8Format f = format_of(method.scheme);
  moert_quant_param_t all[8];
  uint32_t count = 0;
  const int64_t rows = odd_size(f.block_rows), cols = odd_size(f.block_cols);
  must("parameters", [&](auto* e) {
    return method.table.parameters(method.self, rows, cols, all, 8, &count, e);
  });
  if (count < 2) stop("a weight without a scale");
  EXPECT_EQ(all[0].dtype, f.dtype);
  EXPECT_EQ(all[1].param, uint32_t{MOERT_PARAM_SCALE});
  EXPECT_EQ(all[1].required, 1u);
  EXPECT_EQ(all[1].dtype, f.scale_dtype);
  EXPECT_EQ(all[1].shape[0], Fp8Format::blocks(rows, f.block_rows));
  EXPECT_EQ(all[1].shape[1], Fp8Format::blocks(cols, f.block_cols));
}

// Partial blocks at both ends, every code, rows from the middle, rows of the destination apart.
void blocks(const ScaledFormat& method) {
  const Fp8Format f = format_of(method.scheme);
  Fp8Weight weight(f, method.scheme, odd_size(f.block_rows),
                   std::max<int64_t>(odd_size(f.block_cols), 67));
  Random random("blocks " + method.scheme);
  weight.draw(random);
  const int64_t first = 2, rows = weight.rows - 3, stride = weight.cols + 2;
  std::vector<float> out(static_cast<size_t>(rows * stride), 77.0f);
  must("check", [&](auto* e) { return method.table.check(method.self, weight.tensor().get(), e); });
  must("decode", [&](auto* e) {
    return method.table.decode(method.self, weight.tensor().get(), first, rows, out.data(), stride,
                               e);
  });
  const Bytes codes = weight.codes();
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < stride; ++c) {
      const auto code =
          codes[static_cast<size_t>((first + r) * weight.cols + std::min(c, weight.cols - 1))];
      const double want = c < weight.cols ? f.value(code) * weight.scale(first + r, c) : 77.0;
      expect_number(out[static_cast<size_t>(r * stride + c)], want,
                    "row " + std::to_string(first + r) + ", column " + std::to_string(c));
    }
  }
  weight.expect_guards();
}

// A transposed view of the codes: scales belong to the view's rows and columns.
void transposed(const ScaledFormat& method) {
  const Fp8Format f = format_of(method.scheme);
  const int64_t rows = odd_size(f.block_rows), cols = odd_size(f.block_cols);
  Fp8Weight weight(f, method.scheme, rows, cols);
  Random random("transposed " + method.scheme);
  weight.draw(random);
  weight.tensor().view().set_stride(0, 1, static_cast<uint64_t>(rows * cols));
  weight.tensor().view().set_stride(1, rows, static_cast<uint64_t>(rows * cols));
  std::vector<float> out(static_cast<size_t>(rows * cols));
  must("decode", [&](auto* e) {
    return method.table.decode(method.self, weight.tensor().get(), 0, rows, out.data(), cols, e);
  });
  const Bytes codes = weight.codes();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      expect_number(out[static_cast<size_t>(r * cols + c)],
                    f.value(codes[static_cast<size_t>(c * rows + r)]) * weight.scale(r, c),
                    "row " + std::to_string(r) + ", column " + std::to_string(c));
}

void refuses(const ScaledFormat& method) {
  const Fp8Format f = format_of(method.scheme);
  Fp8Weight weight(f, method.scheme, odd_size(f.block_rows), odd_size(f.block_cols));
  Random random("refuses " + method.scheme);
  weight.draw(random);
  const moert_tensor_t* good = weight.quant.scale;
  const auto refused = [&](const char* what, std::initializer_list<moert_code_t> codes) {
    must_fail(what, codes,
              [&](auto* e) { return method.table.check(method.self, weight.tensor().get(), e); });
    std::vector<float> out(static_cast<size_t>(weight.cols));
    must_fail(what, codes, [&](auto* e) {
      return method.table.decode(method.self, weight.tensor().get(), 0, 1, out.data(), weight.cols,
                                 e);
    });
    weight.quant.scale = good;
  };
  const std::initializer_list<moert_code_t> damaged = {MOERT_DATA_LOSS};
  weight.quant.scale = nullptr;
  refused("no scale", damaged);
  const int64_t down = good->shape[0], right = good->shape[1];
  const Bytes zeros(static_cast<size_t>((down + 1) * (right + 1)) * 8, 0);
  const void* data = zeros.data();
  const TensorView tall(data, f.scale_dtype, {down + 1, right});
  const TensorView wide(data, f.scale_dtype, {down, right + 1});
  const TensorView deep(data, f.scale_dtype, {down, right, 1});
  const TensorView other(data, MOERT_DTYPE_F64, {down, right});
  for (const auto& [what, scale] :
       {std::pair<const char*, const moert_tensor_t*>{"a row too many", tall},
        {"a column too many", wide},
        {"three dimensions", deep},
        {"another dtype", other}}) {
    weight.quant.scale = scale;
    refused(what, damaged);
  }
  moert_tensor_t cut = *good;
  cut.bytes -= 1;
  weight.quant.scale = &cut;
  refused("one byte too few of the scale", damaged);
  for (moert_tensor_t const** companion :
       {&weight.quant.scale2, &weight.quant.zero_point, &weight.quant.group_index}) {
    *companion = good;
    refused("a companion that the format does not have", damaged);
    *companion = nullptr;
  }
  weight.quant.scheme = "bf16";
  refused("another scheme", damaged);
  weight.quant.scheme = method.scheme.c_str();
  const Bytes nan(weight.scale_bytes().size(), 0xff);  // in every float type
  weight.scales().buffer().write(nan);
  refused("a scale that is no number", damaged);
}

// A second scale for the whole weight, multiplied or divided by, and asked for only with the option.
void global_scale(const ScaledFormat& method) {
  const Fp8Format f = format_of(method.scheme);
  const int64_t rows = 5, cols = 67;
  Fp8Weight weight(f, method.scheme, rows, cols);
  Random random("global " + method.scheme);
  weight.draw(random);
  float global = 0.37f;
  const TensorView second(static_cast<const void*>(&global), MOERT_DTYPE_F32, {});
  for (const bool divide : {false, true}) {
    const Optioned object(method, {{"global", divide ? "divide" : "multiply"}});
    const ScaledFormat format = object.format();
    const auto all = parameters_of(format, rows, cols);
    const moert_quant_param_t* param = find_param(all, MOERT_PARAM_SCALE2);
    if (param == nullptr) stop("no second scale among the parameters");
    EXPECT_EQ(param->required, 1u);
    EXPECT_EQ(param->dtype, uint32_t{MOERT_DTYPE_F32});
    weight.quant.scale2 = nullptr;
    must_refuse(format, "no second scale", weight.tensor().get(), cols);
    weight.quant.scale2 = second;
    const std::vector<float> got = decoded_rows(format, weight.tensor().get(), 0, rows, cols, cols);
    const Bytes codes = weight.codes();
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) {
        const auto at = static_cast<size_t>(r * cols + c);
        // One product after the other, each rounded to f32.
        const auto product = static_cast<float>(f.value(codes[at]) * weight.scale(r, c));
        expect_number(got[at], double{divide ? product / global : product * global},
                      "row " + std::to_string(r) + ", column " + std::to_string(c));
      }
    for (const float wrong : {0.0f, -1.0f, HUGE_VALF, std::numeric_limits<float>::quiet_NaN()}) {
      global = wrong;
      must_refuse(format, "a second scale that is no number above 0", weight.tensor().get(), cols);
    }
    global = 0.37f;
    const std::vector<float> source(static_cast<size_t>(rows * cols), 1.0f);
    const TensorView from(static_cast<const void*>(source.data()), MOERT_DTYPE_F32, {rows, cols});
    if (method.table.encode != nullptr)
      must_fail("encode", {MOERT_UNIMPLEMENTED}, [&](auto* e) {
        return format.table.encode(format.self, from, weight.tensor().get(), e);
      });
  }
  must_not_take(method, "global", "add");
}

void static_input(const ScaledFormat& method) {
  const Optioned object(method, {{"activations", "static"}});
  Fp8Weight weight(format_of(method.scheme), method.scheme, 3, 5);
  Random random("static " + method.scheme);
  weight.draw(random);
  expect_input_scale(object.format(), weight.tensor().get(), weight.quant, 3, 5);
}

}  // namespace

bool is_scaled(const std::string& scheme) {
  const Fp8Format f = format_of(scheme);
  return f.dtype != 0 && f.scale_dtype != 0;
}

const FormatTests& scaled_tests() {
  static const FormatTests tests = [] {
    FormatTests all = {{"ScaleParameters", parameters}, {"Blocks", blocks},
                       {"TransposedCodes", transposed}, {"RefusesScales", refuses},
                       {"GlobalScale", global_scale},   {"StaticInput", static_input}};
    for (const FormatTests* more : {&fp8_encoding(), &fp8_activations()})
      all.insert(all.end(), more->begin(), more->end());
    return all;
  }();
  return tests;
}

}  // namespace moert::conformance
