// quant_method: formats of eight-bit floats with scales, "fp8_<element>.<blocks>.<scale>". Values are
// computed from the definition of the fields, scales from the blocks that the name speaks of.
// SPDX-License-Identifier: Apache-2.0
#include "quant_scaled.hpp"

#include <cmath>
#include <cstdio>
#include <limits>

#include "host.hpp"
#include "numbers.hpp"
#include "suite.hpp"

namespace moert::conformance {
namespace {

struct Element {
  const char* name;
  uint32_t dtype;
  int exponent_bits, bias;
  bool has_infinity, nan_is_negative_zero;
};
constexpr Element kElements[] = {{"e4m3fn", MOERT_DTYPE_F8_E4M3FN, 4, 7, false, false},
                                 {"e4m3fnuz", MOERT_DTYPE_F8_E4M3FNUZ, 4, 8, false, true},
                                 {"e5m2", MOERT_DTYPE_F8_E5M2, 5, 15, true, false}};

// The format that a scheme's name describes.
struct Format : Element {
  uint32_t scale_dtype = 0;
  int64_t block_rows = 0, block_cols = 0;  // 0: the whole dimension

  int fraction_bits() const { return 7 - exponent_bits; }
  double value(uint32_t code) const {
    const double sign = code >= 0x80 ? -1 : 1;
    const auto magnitude = static_cast<int>(code & 0x7fu);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    if (nan_is_negative_zero && code == 0x80) return nan;
    if (!nan_is_negative_zero && !has_infinity && magnitude == 0x7f) return nan;
    if (has_infinity && magnitude >= 0x7c) return magnitude == 0x7c ? sign * HUGE_VAL : nan;
    const int exponent = magnitude >> fraction_bits();
    const int fraction = magnitude & ((1 << fraction_bits()) - 1);
    const int whole = exponent == 0 ? fraction : fraction + (1 << fraction_bits());
    return sign * std::ldexp(whole, std::max(exponent, 1) - bias - fraction_bits());
  }
  double largest() const { return value(has_infinity ? 0x7b : nan_is_negative_zero ? 0x7f : 0x7e); }
  static int64_t blocks(int64_t size, int64_t block) {
    return block == 0 ? 1 : (size + block - 1) / block;
  }
  int64_t block_of(int64_t index, bool row) const {
    const int64_t block = row ? block_rows : block_cols;
    return block == 0 ? 0 : index / block;
  }
};

Format format_of(const std::string& scheme) {
  Format f{};
  const size_t first = scheme.find('.'), second = scheme.find('.', first + 1);
  if (scheme.substr(0, 4) != "fp8_" || second == std::string::npos) return f;
  const std::string element = scheme.substr(4, first - 4);
  const std::string blocks = scheme.substr(first + 1, second - first - 1);
  const std::string scale = scheme.substr(second + 1);
  for (const Element& each : kElements)
    if (element == each.name) static_cast<Element&>(f) = each;
  for (const uint32_t dtype : {MOERT_DTYPE_F32, MOERT_DTYPE_BF16, MOERT_DTYPE_F8_E8M0})
    if (scale == dtype_name(dtype) || "f8_" + scale == dtype_name(dtype)) f.scale_dtype = dtype;
  long long down = 0, right = 0;
  if (blocks == "channel") {
    f.block_rows = 1;
  } else if (std::sscanf(blocks.c_str(), "block%lldx%lld", &down, &right) == 2) {
    f.block_rows = down;
    f.block_cols = right;
  } else if (blocks != "tensor") {
    f.dtype = 0;
  }
  return f;
}

// A weight with its scales, and the numbers that it stands for.
class Weight {
 public:
  Weight(const Format& format, std::string scheme, int64_t row_count, int64_t col_count)
      : f(format),
        rows(row_count),
        cols(col_count),
        scheme_(std::move(scheme)),
        codes_(place_, f.dtype, {rows, cols}),
        scales_(place_, f.scale_dtype,
                {Format::blocks(rows, f.block_rows), Format::blocks(cols, f.block_cols)}) {
    quant.struct_size = sizeof quant;
    quant.scheme = scheme_.c_str();
    quant.layout = "canonical";
    quant.scale = scales_.get();
    codes_.view().set_quant(&quant);
  }
  // Every code, in an order of its own; scales of many sizes.
  void draw(Random& random) {
    Bytes codes(static_cast<size_t>(rows * cols));
    for (auto& code : codes) code = static_cast<unsigned char>(random.below(256));
    codes_.buffer().write(codes);
    const auto count = static_cast<size_t>(element_count(*scales_.get()));
    if (f.scale_dtype == MOERT_DTYPE_F8_E8M0) {
      Bytes scales(count);
      for (auto& scale : scales) scale = static_cast<unsigned char>(100 + random.below(50));
      return scales_.buffer().write(scales);
    }
    std::vector<double> scales(count);
    for (double& scale : scales)
      scale = std::ldexp(random.uniform() + 1.5, static_cast<int>(random.below(20)) - 10);
    scales_.buffer().write(rounded(f.scale_dtype, scales).bytes);
  }
  void set_codes(const Bytes& codes) { codes_.buffer().write(codes); }
  Bytes codes() { return codes_.read(); }
  Bytes scale_bytes() { return scales_.read(); }
  double scale(int64_t row, int64_t col) {
    const auto index = static_cast<size_t>(f.block_of(row, true) * scales_.get()->shape[1] +
                                           f.block_of(col, false));
    const Bytes bytes = scales_.read();
    if (f.scale_dtype == MOERT_DTYPE_F8_E8M0) return std::ldexp(1.0, bytes[index] - 127);
    return decoded(f.scale_dtype, bytes)[index];
  }
  Tensor& tensor() { return codes_; }
  Tensor& scales() { return scales_; }
  void expect_guards() {
    codes_.buffer().expect_guards("the weight");
    scales_.buffer().expect_guards("the scale");
  }

  const Format f;
  const int64_t rows, cols;
  moert_quant_view_t quant{};

 private:
  std::string scheme_;
  Place place_{nullptr};
  Tensor codes_, scales_;
};

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
  const Format f = format_of(method.scheme);
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
  EXPECT_EQ(all[1].shape[0], Format::blocks(rows, f.block_rows));
  EXPECT_EQ(all[1].shape[1], Format::blocks(cols, f.block_cols));
}

// Partial blocks at both ends, every code, rows from the middle, rows of the destination apart.
void blocks(const ScaledFormat& method) {
  const Format f = format_of(method.scheme);
  Weight weight(f, method.scheme, odd_size(f.block_rows),
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
  const Format f = format_of(method.scheme);
  const int64_t rows = odd_size(f.block_rows), cols = odd_size(f.block_cols);
  Weight weight(f, method.scheme, rows, cols);
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
  const Format f = format_of(method.scheme);
  Weight weight(f, method.scheme, odd_size(f.block_rows), odd_size(f.block_cols));
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
void expect_nearest(Weight& weight, const std::vector<float>& source) {
  const Bytes codes = weight.codes();
  for (int64_t r = 0; r < weight.rows; ++r) {
    for (int64_t c = 0; c < weight.cols; ++c) {
      const auto at = static_cast<size_t>(r * weight.cols + c);
      const double scale = weight.scale(r, c);
      const double want = static_cast<double>(source[at]) / scale;
      const double got = weight.f.value(codes[at]);
      ASSERT_LE(std::fabs(want), weight.f.largest()) << "a scale that is too small for its block";
      double best = HUGE_VAL;
      for (uint32_t code = 0; code < 256; ++code)
        if (const double value = weight.f.value(code); std::isfinite(value))
          best = std::min(best, std::fabs(value - want));
      ASSERT_LE(std::fabs(got - want), best + std::fabs(want) * 0x1p-24)
          << source[at] << " became " << got << " x " << scale;
    }
  }
}

void encoding(const ScaledFormat& method) {
  if (method.table.encode == nullptr) throw Skip{"cannot be written"};
  const Format f = format_of(method.scheme);
  const int64_t rows = odd_size(f.block_rows), cols = odd_size(f.block_cols);
  std::vector<float> source(static_cast<size_t>(rows * cols));
  Random random("encoding " + method.scheme);
  for (float& x : source)
    x = static_cast<float>(std::ldexp(random.uniform(), static_cast<int>(random.below(16)) - 8));
  for (int64_t c = 0; c < cols; ++c) source[static_cast<size_t>(c)] = 0.0f;  // a channel of zeros
  Weight weight(f, method.scheme, rows, cols), again(f, method.scheme, rows, cols);
  const TensorView from(static_cast<const void*>(source.data()), MOERT_DTYPE_F32, {rows, cols});
  must("encode",
       [&](auto* e) { return method.table.encode(method.self, from, weight.tensor().get(), e); });
  weight.expect_guards();
  expect_nearest(weight, source);
  const auto numbers_of = [&](Weight& encoded) {
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
double nearest(const Format& f, double value) {
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
  const Format f = format_of(method.scheme);
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
  const Format f = format_of(scheme);
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
