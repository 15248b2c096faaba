// quant_method: MXFP4 ("mxfp4.g32.e8m0") and NVFP4 ("nvfp4.g16.e4m3fn"), from the definitions of e2m1, e8m0
// and e4m3fn.
// SPDX-License-Identifier: Apache-2.0
#include "quant_packed.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "host.hpp"
#include "numbers.hpp"
#include "suite.hpp"

namespace moert::conformance {
namespace {

constexpr double kMagnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

double code_value(uint32_t code) { return code >= 8 ? -kMagnitudes[code - 8] : kMagnitudes[code]; }

bool is_mx(const std::string& scheme) { return scheme == "mxfp4.g32.e8m0"; }

// A weight of whole groups. All codes lie densely, row by row, the first in the low nibble.
struct Packed {
  Packed(std::string name, int64_t row_count, int64_t groups)
      : scheme(std::move(name)),
        group(is_mx(scheme) ? 32 : 16),
        rows(row_count),
        cols(groups * group),
        codes(static_cast<size_t>(rows * cols / 2)),
        scales(static_cast<size_t>(rows * groups), is_mx(scheme) ? 127 : 0x38),
        view(codes.data(), MOERT_DTYPE_F4_E2M1, {rows, cols}),
        scale(scales.data(), is_mx(scheme) ? MOERT_DTYPE_F8_E8M0 : MOERT_DTYPE_F8_E4M3FN,
              {rows, groups}),
        second(static_cast<const void*>(&global), MOERT_DTYPE_F32, {}) {
    quant.struct_size = sizeof quant;
    quant.scheme = scheme.c_str();
    quant.layout = "canonical";
    quant.scale = scale;
    if (!is_mx(scheme)) quant.scale2 = second;
    view.set_quant(&quant);
  }
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;

  uint32_t code(int64_t index) const {
    const uint32_t byte = codes[static_cast<size_t>(index / 2)];
    return index % 2 == 0 ? byte & 15u : byte >> 4;
  }
  double scale_of(int64_t row, int64_t col) const {
    const int byte = scales[static_cast<size_t>(row * (cols / group) + col / group)];
    if (is_mx(scheme)) return std::ldexp(1.0, byte - 127);
    const int exponent = byte >> 3, fraction = byte & 7;
    return exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  }
  // The number of [row, col], whose code is `code`.
  float number(uint32_t code, int64_t row, int64_t col) const {
    const auto value = static_cast<float>(code_value(code) * scale_of(row, col));
    return is_mx(scheme) ? value : value * global;
  }
  void draw(Random& random) {
    for (auto& byte : codes) byte = static_cast<unsigned char>(random.below(256));
    for (auto& byte : scales)
      byte =
          static_cast<unsigned char>(is_mx(scheme) ? 100 + random.below(50) : random.below(0x7f));
  }

  const std::string scheme;
  const int64_t group, rows, cols;
  Bytes codes, scales;
  float global = 0.37f;
  TensorView view, scale, second;
  moert_quant_view_t quant{};
};

std::vector<float> decode(const ScaledFormat& method, const Packed& weight, int64_t first,
                          int64_t rows, int64_t stride) {
  std::vector<float> out(static_cast<size_t>(rows * stride), 77.0f);
  must("decode", [&](auto* e) {
    return method.table.decode(method.self, weight.view, first, rows, out.data(), stride, e);
  });
  return out;
}

// Each number of a decoded weight is want(row, column).
template <class Want>
void expect_numbers(const std::vector<float>& got, const Packed& weight, Want want) {
  for (int64_t r = 0; r < weight.rows; ++r)
    for (int64_t c = 0; c < weight.cols; ++c)
      EXPECT_EQ(got[static_cast<size_t>(r * weight.cols + c)], want(r, c))
          << "row " << r << ", column " << c;
}

// Every code under every scale that is a number.
void every_code(const ScaledFormat& method) {
  Packed weight(method.scheme, is_mx(method.scheme) ? 255 : 127, 1);
  for (int64_t i = 0; i < weight.rows * weight.cols / 2; ++i)
    weight.codes[static_cast<size_t>(i)] =
        static_cast<unsigned char>((i % 16) | (15 - i % 16) << 4);
  for (int64_t r = 0; r < weight.rows; ++r)
    weight.scales[static_cast<size_t>(r)] = static_cast<unsigned char>(r);
  const std::vector<float> got = decode(method, weight, 0, weight.rows, weight.cols);
  expect_numbers(got, weight, [&](int64_t r, int64_t c) {
    return weight.number(weight.code(r * weight.cols + c), r, c);
  });
}

// Groups along a row, rows from the middle, rows of the destination apart, both orders of nibbles.
void groups(const ScaledFormat& method) {
  Packed weight(method.scheme, 5, 3);
  Random random("groups " + method.scheme);
  weight.draw(random);
  for (const bool high_first : {false, true}) {
    moert_tensor_t view = *weight.view.get();
    if (high_first) view.flags |= MOERT_TENSOR_HIGH_NIBBLE_FIRST;
    const int64_t stride = weight.cols + 3;
    std::vector<float> out(static_cast<size_t>(3 * stride), 77.0f);
    must("decode", [&](auto* e) {
      return method.table.decode(method.self, &view, 1, 3, out.data(), stride, e);
    });
    for (int64_t r = 0; r < 3; ++r)
      for (int64_t c = 0; c < stride; ++c) {
        const int64_t index = (1 + r) * weight.cols + (high_first ? c ^ 1 : c);
        const float want = c < weight.cols ? weight.number(weight.code(index), 1 + r, c) : 77.0f;
        EXPECT_EQ(out[static_cast<size_t>(r * stride + c)], want)
            << (high_first ? "high" : "low") << " nibble first, row " << 1 + r << ", column " << c;
      }
  }
}

// The codes of a view that lies across the bytes; scales belong to the view's rows and columns.
void transposed(const ScaledFormat& method) {
  Packed weight(method.scheme, 6, 1);
  Random random("transposed " + method.scheme);
  weight.draw(random);
  weight.view.set_stride(0, 1, weight.codes.size());
  weight.view.set_stride(1, weight.rows, weight.codes.size());
  const std::vector<float> got = decode(method, weight, 0, weight.rows, weight.cols);
  expect_numbers(got, weight, [&](int64_t r, int64_t c) {
    return weight.number(weight.code(c * weight.rows + r), r, c);
  });
}

void refuses(const ScaledFormat& method) {
  Packed weight(method.scheme, 4, 2);
  const moert_quant_view_t good = weight.quant;
  const auto refused = [&](const char* what, const moert_tensor_t* view,
                           std::initializer_list<moert_code_t> codes = {MOERT_DATA_LOSS}) {
    must_fail(what, codes, [&](auto* e) { return method.table.check(method.self, view, e); });
    std::vector<float> out(static_cast<size_t>(weight.cols));
    must_fail(what, codes, [&](auto* e) {
      return method.table.decode(method.self, view, 0, 1, out.data(), weight.cols, e);
    });
    weight.quant = good;
  };
  must("check", [&](auto* e) { return method.table.check(method.self, weight.view, e); });
  TensorView part(weight.codes.data(), MOERT_DTYPE_F4_E2M1, {4, weight.cols - 1});
  part.set_quant(&weight.quant);
  refused("a part of a group", part);
  moert_tensor_t cut = *weight.view.get();
  cut.bytes -= 1;
  refused("one byte too few", &cut);
  moert_tensor_t flagged = *weight.view.get();
  flagged.flags |= 1u << 31;
  refused("a tensor flag that nobody knows", &flagged, {MOERT_UNIMPLEMENTED});
  TensorView bytes(weight.codes.data(), MOERT_DTYPE_U8, {4, weight.cols / 2});
  bytes.set_quant(&weight.quant);
  refused("plain bytes", bytes);
  weight.quant.scale = nullptr;
  refused("no scale", weight.view);
  const Bytes zeros(256, 0);
  const TensorView wide(static_cast<const void*>(zeros.data()), weight.scale.get()->dtype, {4, 3});
  weight.quant.scale = wide;
  refused("a group too many", weight.view);
  const TensorView other(static_cast<const void*>(zeros.data()), MOERT_DTYPE_U8, {4, 2});
  weight.quant.scale = other;
  refused("scales of another dtype", weight.view);
  weight.quant.zero_point = weight.scale;
  refused("a companion that the format does not have", weight.view);
  weight.quant.scheme = "bf16";
  refused("another scheme", weight.view);
  weight.scales[3] = is_mx(method.scheme) ? 0xff : 0x7f;
  refused("a scale that is no number", weight.view);
  weight.scales[3] = weight.scales[0];
  weight.quant.scale2 = is_mx(method.scheme) ? weight.second.get() : nullptr;
  refused("a second scale too many, or none", weight.view);
  if (is_mx(method.scheme)) return;
  for (const float wrong : {0.0f, -1.0f, HUGE_VALF, std::numeric_limits<float>::quiet_NaN()}) {
    weight.global = wrong;
    refused("a second scale that is no number above 0", weight.view);
  }
}

// compressed-tensors stores the reciprocal of what ModelOpt stores.
void reciprocal_global(const ScaledFormat& method) {
  if (is_mx(method.scheme)) throw Skip{"has no second scale"};
  TestHost host(1);
  const moert_kv_t option = {"global", "divide"};
  void* self = nullptr;
  must("create", [&](auto* e) {
    return method.table.create(host.table(), method.scheme.c_str(), &option, 1, &self, e);
  });
  Packed weight(method.scheme, 3, 2);
  Random random("reciprocal");
  weight.draw(random);
  const std::vector<float> got =
      decode({method.table, self, method.scheme}, weight, 0, weight.rows, weight.cols);
  method.table.destroy(self);
  expect_numbers(got, weight, [&](int64_t r, int64_t c) {
    const double product = code_value(weight.code(r * weight.cols + c)) * weight.scale_of(r, c);
    return static_cast<float>(product) / weight.global;
  });
}

void encoding(const ScaledFormat& method) {
  if (!is_mx(method.scheme)) throw Skip{"is not written"};
  Packed weight(method.scheme, 8, 3), again(method.scheme, 8, 3);
  std::vector<float> source(static_cast<size_t>(weight.rows * weight.cols));
  Random random("encoding " + method.scheme);
  for (float& x : source)
    x = static_cast<float>(std::ldexp(random.uniform(), static_cast<int>(random.below(6)) - 3));
  std::fill_n(source.begin(), weight.cols, 0.0f);
  // Halfway between two codes: to the even one. 6 makes the scale 1.
  const float ties[] = {6, 0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5, -0.25f, -5};
  std::copy(std::begin(ties), std::end(ties), source.begin() + weight.cols);
  std::fill_n(source.begin() + weight.cols + 10, weight.group - 10, 0.0f);
  const TensorView from(static_cast<const void*>(source.data()), MOERT_DTYPE_F32,
                        {weight.rows, weight.cols});
  must("encode", [&](auto* e) { return method.table.encode(method.self, from, weight.view, e); });
  const std::vector<float> once = decode(method, weight, 0, weight.rows, weight.cols);
  const float tied[] = {6, 0, 1, 1, 2, 2, 4, 4, 0, -4};
  for (size_t i = 0; i < std::size(tied); ++i)
    EXPECT_EQ(once[static_cast<size_t>(weight.cols) + i], tied[i]) << ties[i];
  for (int64_t r = 0; r < weight.rows; ++r) {
    double largest = 0;  // of the group, in units of its scale
    for (int64_t c = 0; c < weight.cols; ++c) {
      const auto at = static_cast<size_t>(r * weight.cols + c);
      const double want = static_cast<double>(source[at]) / weight.scale_of(r, c);
      largest = std::max(c % weight.group == 0 ? 0 : largest, std::fabs(want));
      if (c % weight.group == weight.group - 1 && largest > 0) {
        EXPECT_GT(largest, 3) << "half the scale would do for row " << r;
      }
      ASSERT_LE(std::fabs(want), 6) << "a scale that is too small for its group";
      double best = HUGE_VAL;
      for (const double each : kMagnitudes)
        best = std::min(best, std::fabs(each - std::fabs(want)));
      const double got = static_cast<double>(once[at]) / weight.scale_of(r, c);
      ASSERT_LE(std::fabs(got - want), best) << source[at] << " became " << once[at];
    }
  }
  const TensorView back(static_cast<const void*>(once.data()), MOERT_DTYPE_F32,
                        {weight.rows, weight.cols});
  must("encode again",
       [&](auto* e) { return method.table.encode(method.self, back, again.view, e); });
  EXPECT_EQ(bytes_of(decode(method, again, 0, again.rows, again.cols)), bytes_of(once))
      << "what was decoded is encoded otherwise";
  source[5] = HUGE_VALF;
  must_fail("a weight that is no number", {MOERT_DATA_LOSS},
            [&](auto* e) { return method.table.encode(method.self, from, again.view, e); });
}

}  // namespace

bool is_packed(const std::string& scheme) { return is_mx(scheme) || scheme == "nvfp4.g16.e4m3fn"; }

const std::vector<std::pair<const char*, void (*)(const ScaledFormat&)>>& packed_tests() {
  static const std::vector<std::pair<const char*, void (*)(const ScaledFormat&)>> tests = {
      {"EveryCode", every_code},
      {"Groups", groups},
      {"TransposedCodes", transposed},
      {"RefusesScales", refuses},
      {"ReciprocalGlobal", reciprocal_global},
      {"EncodingGroups", encoding}};
  return tests;
}

}  // namespace moert::conformance
