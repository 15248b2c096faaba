// quant_method: formats of eight-bit floats with scales, "fp8_<element>.<blocks>.<scale>". Values are
// computed from the definition of the fields, scales from the blocks that the name speaks of.
// SPDX-License-Identifier: Apache-2.0
#include "quant_scaled.hpp"

#include <cmath>
#include <limits>
#include <map>

#include "fp8_weight.hpp"
#include "host.hpp"
#include "numbers.hpp"
#include "suite.hpp"

namespace moert::conformance {
namespace {

// Rows enough for two blocks and a part of one, if blocks are small; else a part of one block.
int64_t odd_size(int64_t block) {
  return block == 0 ? 21 : block <= 64 ? 2 * block + 3 : block + 5;
}

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

// What encode wrote: the nearest of the format's numbers under its scale.
void expect_nearest(Fp8Weight& weight, const std::vector<float>& source) {
  const Bytes codes = weight.codes();
  std::map<std::pair<int64_t, int64_t>, double> largest_of;  // block -> amax in units of its scale
  for (int64_t r = 0; r < weight.rows; ++r) {
    for (int64_t c = 0; c < weight.cols; ++c) {
      const auto at = static_cast<size_t>(r * weight.cols + c);
      const double scale = weight.scale(r, c);
      const double want = static_cast<double>(source[at]) / scale;
      const double got = weight.f.value(codes[at]);
      ASSERT_LE(std::fabs(want), weight.f.largest()) << "a scale that is too small for its block";
      double& largest = largest_of[{weight.f.block_of(r, true), weight.f.block_of(c, false)}];
      largest = std::max(largest, std::fabs(want));
      double best = HUGE_VAL;
      for (uint32_t code = 0; code < 256; ++code)
        if (const double value = weight.f.value(code); std::isfinite(value))
          best = std::min(best, std::fabs(value - want));
      ASSERT_LE(std::fabs(got - want), best + std::fabs(want) * 0x1p-24)
          << source[at] << " became " << got << " x " << scale;
    }
  }
  const double room = weight.f.scale_dtype == MOERT_DTYPE_F8_E8M0 ? 0.5 : 1 - 0x1p-7;
  for (const auto& [block, largest] : largest_of) {
    if (largest == 0) continue;
    EXPECT_GE(largest, room * weight.f.largest())
        << "a scale that is larger than need be, of block " << block.first << ", " << block.second;
  }
}

void encoding(const ScaledFormat& method) {
  if (method.table.encode == nullptr) throw Skip{"cannot be written"};
  const Fp8Format f = format_of(method.scheme);
  const int64_t rows = odd_size(f.block_rows), cols = odd_size(f.block_cols);
  std::vector<float> source(static_cast<size_t>(rows * cols));
  Random random("encoding " + method.scheme);
  for (float& x : source)
    x = static_cast<float>(std::ldexp(random.uniform(), static_cast<int>(random.below(16)) - 8));
  for (int64_t c = 0; c < cols; ++c) source[static_cast<size_t>(c)] = 0.0f;  // a channel of zeros
  Fp8Weight weight(f, method.scheme, rows, cols), again(f, method.scheme, rows, cols);
  const TensorView from(static_cast<const void*>(source.data()), MOERT_DTYPE_F32, {rows, cols});
  must("encode",
       [&](auto* e) { return method.table.encode(method.self, from, weight.tensor().get(), e); });
  weight.expect_guards();
  expect_nearest(weight, source);
  const auto numbers_of = [&](Fp8Weight& encoded) {
    std::vector<float> out(source.size());
    must("decode", [&](auto* e) {
      return method.table.decode(method.self, encoded.tensor().get(), 0, rows, out.data(), cols, e);
    });
    return out;
  };
  const std::vector<float> once = numbers_of(weight);
  for (int64_t c = 0; c < cols; ++c)
    EXPECT_EQ(once[static_cast<size_t>(c)], 0.0f) << "a zero in column " << c << " became a number";
  const TensorView back(static_cast<const void*>(once.data()), MOERT_DTYPE_F32, {rows, cols});
  must("encode again",
       [&](auto* e) { return method.table.encode(method.self, back, again.tensor().get(), e); });
  EXPECT_EQ(bytes_of(numbers_of(again)), bytes_of(once)) << "what was decoded is encoded otherwise";
  source[3] = std::numeric_limits<float>::quiet_NaN();
  must_fail("a weight that is no number", {MOERT_DATA_LOSS}, [&](auto* e) {
    return method.table.encode(method.self, from, again.tensor().get(), e);
  });
}

// The format's number nearest to one that is not beyond the largest; the even code of two.
double nearest(const Fp8Format& f, double value) {
  double best = 0, distance = HUGE_VAL;
  for (uint32_t code = 0; code < 256; ++code) {
    const double each = f.value(code), away = std::fabs(each - value);
    if (away < distance || (away == distance && code % 2 == 0)) best = each, distance = away;
  }
  return best;
}

// An object that quantises activations in one way, and rows of 200 numbers, odd ones among them.
void activations(const ScaledFormat& method, const char* way, int64_t group, double least,
                 const moert_tensor_t* input_scale) {
  const Fp8Format f = format_of(method.scheme);
  TestHost host(1);
  const moert_kv_t option = {"activations", way};
  void* self = nullptr;
  ErrorRecord error;
  if (method.table.create(host.table(), method.scheme.c_str(), &option, 1, &self, error.get()) !=
      MOERT_OK)
    throw Skip{std::string("activations '") + way + "' are not offered"};
  constexpr int64_t kTokens = 3, kCols = 200;
  std::vector<float> rows(kTokens * kCols);
  Random random(std::string("activations ") + way);
  for (float& x : rows) x = static_cast<float>(4 * random.uniform());
  for (size_t c = 0; c < kCols; ++c) rows[kCols + c] = 0.0f;
  rows[5] = HUGE_VALF;
  rows[6] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> before = rows;
  must("quantize_activations", [&](auto* e) {
    return method.table.quantize_activations(self, rows.data(), kTokens, kCols, input_scale, e);
  });
  method.table.destroy(self);
  for (int64_t first = 0; first < kTokens * kCols;) {
    const int64_t count = std::min(group, kCols - first % kCols);
    double amax = 0;
    for (int64_t i = first; i < first + count; ++i)
      if (const double x = before[static_cast<size_t>(i)]; std::isfinite(x))
        amax = std::max(amax, std::fabs(x));
    const double scale = input_scale != nullptr ? 0.01 : std::max(amax, least) / f.largest();
    for (int64_t i = first; i < first + count; ++i) {
      const double x = before[static_cast<size_t>(i)], got = rows[static_cast<size_t>(i)];
      if (!std::isfinite(x)) {
        EXPECT_TRUE(std::isnan(x) ? std::isnan(got) : got == x) << x << " became " << got;
        continue;
      }
      const double room = std::min(std::fabs(x) / scale, f.largest());
      const double want = scale * nearest(f, std::copysign(room, x));
      // Scale and quotient are rounded to f32 before: a tie may fall to the other side.
      EXPECT_LE(std::fabs(got - x), std::fabs(want - x) + std::fabs(x) * 0x1p-20)
          << way << ": " << x;
    }
    first += count;
  }
}

void activation_schemes(const ScaledFormat& method) {
  if (method.table.quantize_activations == nullptr) throw Skip{"activations are left alone"};
  const double largest = format_of(method.scheme).largest();
  const float fixed = 0.01f;
  const TensorView input_scale(static_cast<const void*>(&fixed), MOERT_DTYPE_F32, {});
  activations(method, "static", 200, 0, input_scale);
  activations(method, "token", 200, largest / (largest * 512), nullptr);
  activations(method, "group128", 128, 1e-4, nullptr);
}

}  // namespace

bool is_scaled(const std::string& scheme) {
  const Fp8Format f = format_of(scheme);
  return f.dtype != 0 && f.scale_dtype != 0;
}

const std::vector<std::pair<const char*, void (*)(const ScaledFormat&)>>& scaled_tests() {
  static const std::vector<std::pair<const char*, void (*)(const ScaledFormat&)>> tests = {
      {"ScaleParameters", parameters}, {"Blocks", blocks},
      {"TransposedCodes", transposed}, {"RefusesScales", refuses},
      {"EncodingBlocks", encoding},    {"Activations", activation_schemes},
  };
  return tests;
}

}  // namespace moert::conformance
