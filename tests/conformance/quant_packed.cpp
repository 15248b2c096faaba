// quant_method: MXFP4 ("mxfp4.g32.e8m0") and NVFP4 ("nvfp4.g16.e4m3fn"), from the definitions of e2m1, e8m0
// and e4m3fn.
// SPDX-License-Identifier: Apache-2.0
#include "quant_packed.hpp"

#include <cmath>
#include <limits>

#include "fp4_weight.hpp"
#include "numbers.hpp"
#include "quant_activations.hpp"
#include "suite.hpp"

namespace moert::conformance {
namespace {

std::vector<float> decode(const ScaledFormat& method, const Fp4Weight& weight) {
  return decoded_rows(method, weight.view, 0, weight.rows, weight.cols, weight.cols);
}

// Each number of a decoded weight is want(row, column).
template <class Want>
void expect_numbers(const std::vector<float>& got, const Fp4Weight& weight, Want want) {
  for (int64_t r = 0; r < weight.rows; ++r)
    for (int64_t c = 0; c < weight.cols; ++c)
      EXPECT_EQ(got[static_cast<size_t>(r * weight.cols + c)], want(r, c))
          << "row " << r << ", column " << c;
}

// Every code under every scale that is a number.
void every_code(const ScaledFormat& method) {
  Fp4Weight weight(method.scheme, is_mx(method.scheme) ? 255 : 127, 1);
  for (int64_t i = 0; i < weight.rows * weight.cols / 2; ++i)
    weight.codes[static_cast<size_t>(i)] =
        static_cast<unsigned char>((i % 16) | (15 - i % 16) << 4);
  for (int64_t r = 0; r < weight.rows; ++r)
    weight.scales[static_cast<size_t>(r)] = static_cast<unsigned char>(r);
  const std::vector<float> got = decode(method, weight);
  expect_numbers(got, weight, [&](int64_t r, int64_t c) {
    return weight.number(weight.code(r * weight.cols + c), r, c);
  });
}

// Groups along a row, rows from the middle, rows of the destination apart, both orders of nibbles.
void groups(const ScaledFormat& method) {
  Fp4Weight weight(method.scheme, 5, 3);
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
  Fp4Weight weight(method.scheme, 6, 1);
  Random random("transposed " + method.scheme);
  weight.draw(random);
  weight.view.set_stride(0, 1, weight.codes.size());
  weight.view.set_stride(1, weight.rows, weight.codes.size());
  const std::vector<float> got = decode(method, weight);
  expect_numbers(got, weight, [&](int64_t r, int64_t c) {
    return weight.number(weight.code(c * weight.rows + r), r, c);
  });
}

void refuses(const ScaledFormat& method) {
  Fp4Weight weight(method.scheme, 4, 2);
  const moert_quant_view_t good = weight.quant;
  const auto refused = [&](const char* what, const moert_tensor_t* view,
                           std::initializer_list<moert_code_t> codes = {MOERT_DATA_LOSS}) {
    must_refuse(method, what, view, weight.cols, codes);
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
  const Optioned object(method, {{"global", "divide"}});
  Fp4Weight weight(method.scheme, 3, 2);
  Random random("reciprocal");
  weight.draw(random);
  const std::vector<float> got = decode(object.format(), weight);
  expect_numbers(got, weight, [&](int64_t r, int64_t c) {
    const double product = e2m1_value(weight.code(r * weight.cols + c)) * weight.scale_of(r, c);
    return static_cast<float>(product) / weight.global;
  });
}

void static_input(const ScaledFormat& method) {
  for (const char* global : {"multiply", "divide"}) {
    const Optioned object(method, {{"activations", "nvfp4"}, {"global", global}});
    Fp4Weight weight(method.scheme, 3, 2);
    expect_input_scale(object.format(), weight.view, weight.quant, 3, weight.cols);
  }
  // Its reciprocal is no number.
  const Optioned object(method, {{"activations", "nvfp4"}, {"global", "divide"}});
  const float tiny = 1e-40f;
  const TensorView scalar(static_cast<const void*>(&tiny), MOERT_DTYPE_F32, {});
  float row[1] = {1};
  must_fail("an input scale without a reciprocal", {MOERT_DATA_LOSS}, [&](auto* e) {
    return method.table.quantize_activations(object.format().self, row, 1, 1, scalar, e);
  });
}

}  // namespace

bool is_packed(const std::string& scheme) { return is_mx(scheme) || scheme == "nvfp4.g16.e4m3fn"; }

const FormatTests& packed_tests(const std::string& scheme) {
  static const FormatTests both = {{"EveryCode", every_code},
                                   {"Groups", groups},
                                   {"TransposedCodes", transposed},
                                   {"RefusesScales", refuses}};
  static const FormatTests nv_alone = {{"ReciprocalGlobal", reciprocal_global},
                                       {"StaticInput", static_input}};
  const auto joined = [](std::initializer_list<const FormatTests*> lists) {
    FormatTests all;
    for (const FormatTests* list : lists) all.insert(all.end(), list->begin(), list->end());
    return all;
  };
  static const FormatTests mx = joined({&both, &fp4_encoding(), &mxfp4_activations()});
  static const FormatTests nv = joined({&both, &nv_alone, &fp4_encoding(), &nvfp4_activations()});
  return is_mx(scheme) ? mx : nv;
}

}  // namespace moert::conformance
