// quant_method: what is refused of four-bit integers, and how they are written.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "int4_weight.hpp"
#include "quant_int4.hpp"
#include "suite.hpp"

namespace moert::conformance {
namespace {

void refuses(const ScaledFormat& method) {
  const Int4Form form = int4_form(method.scheme);
  const int64_t in = form.group == 0 ? 16 : 8 * form.group;
  Int4Weight weight(method.scheme, form.default_zeros(), 16, in);
  Random random("refuses " + method.scheme);
  weight.draw(random);
  const moert_quant_view_t good = weight.quant;
  const moert_tensor_t whole = *weight.weight->get();
  const auto refused = [&](const char* what, const moert_tensor_t& view) {
    must_refuse(method, what, &view, in);
    weight.quant = good;
  };
  must("check", [&](auto* e) { return method.table.check(method.self, &whole, e); });
  moert_tensor_t view = whole;
  view.dtype = MOERT_DTYPE_U32;
  refused("words without a sign", view);
  view = whole;
  view.rank = 1;
  refused("a vector", view);
  view = whole;
  view.bytes -= 1;
  refused("one byte too few", view);
  view = whole;
  view.quant = nullptr;
  refused("a weight without its record", view);
  // One word of columns less: no whole group, or scales of more groups than there are.
  int64_t shape[] = {whole.shape[0], whole.shape[1]};
  shape[form.kind == Int4Form::packed ? 1 : 0] -= 1;
  view = whole;
  view.shape = shape;
  if (form.group != 0) refused("a part of a group", view);
  for (int64_t& size : shape) size = int64_t{1} << 61;
  const int64_t still[] = {0, 0};
  view.strides = still;
  refused("more codes than can be counted", view);

  moert_tensor_t other = *good.scale;
  int64_t larger[] = {other.shape[0] + 1, other.shape[1]};
  other.shape = larger;
  other.strides = still;
  weight.quant.scale = &other;
  refused("a scale too many", whole);
  other = *good.scale;
  other.dtype = MOERT_DTYPE_F64;
  weight.quant.scale = &other;
  refused("scales of another dtype", whole);
  weight.quant.scale = nullptr;
  refused("no scale", whole);
  for (auto companion : {&moert_quant_view_t::scale2, &moert_quant_view_t::input_scale}) {
    weight.quant.*companion = good.scale;
    refused("a companion that the format does not have", whole);
  }
  weight.quant.scheme = "bf16";
  refused("another scheme", whole);
  weight.quant.layout = "org.example:private";
  refused("a private layout", whole);
  weight.scales->buffer().write(Bytes(weight.scales->read().size(), 0xff));
  refused("a scale that is no number", whole);
}

// Zero points that are there must be meant, and those that are meant must be there.
void refuses_zeros(const ScaledFormat& method) {
  const Int4Form form = int4_form(method.scheme);
  const int64_t in = form.group == 0 ? 16 : 8 * form.group;
  Int4Weight weight(method.scheme, "stored", 16, in);
  Random random("zeros " + method.scheme);
  weight.draw(random);
  const moert_tensor_t* view = weight.weight->get();
  must_refuse(Optioned(method, {{"zeros", "none"}}).format(), "a zero point for zeros: none", view,
              in);
  for (const char* zeros : {"stored", "plus_one"}) {
    const Optioned object(method, {{"zeros", zeros}});
    const ScaledFormat format = object.format();
    const moert_tensor_t* good = weight.quant.zero_point;
    weight.quant.zero_point = nullptr;
    must_refuse(format, "no zero point", view, in);
    moert_tensor_t other = *good;
    int64_t larger[] = {other.shape[0], other.shape[1] + 1};
    const int64_t still[] = {0, 0};
    other.shape = larger;
    other.strides = still;
    weight.quant.zero_point = &other;
    must_refuse(format, "a zero point too many", view, in);
    other = *good;
    other.dtype = MOERT_DTYPE_I8;
    must_refuse(format, "zero points of another dtype", view, in);
    weight.quant.zero_point = good;
  }
}

// Codes are the nearest, and the scale is the least under which none saturates.
void expect_nearest(const Int4Weight& weight, const std::vector<float>& source,
                    const std::vector<float>& got) {
  const std::vector<double> scales = decoded(weight.form.scale_dtype, weight.scales->read());
  for (int64_t r = 0; r < weight.out; ++r)
    for (int64_t g = 0; g < weight.groups; ++g) {
      const double scale = scales[static_cast<size_t>(
          weight.form.kind == Int4Form::packed ? r * weight.groups + g : g * weight.out + r)];
      const int64_t width = weight.in / weight.groups;
      double need = 0;
      for (int64_t c = g * width; c < (g + 1) * width; ++c) {
        const double x = source[static_cast<size_t>(r * weight.in + c)], want = x / scale;
        need = std::max(need, want > 0 ? want / 7 : want / -8);
        ASSERT_EQ(double{got[static_cast<size_t>(r * weight.in + c)]},
                  scale * std::clamp(std::nearbyint(want), -8.0, 7.0))
            << x << " under " << scale;
      }
      const bool coarse = weight.form.scale_dtype == MOERT_DTYPE_F16 && scale <= 0x1p-14;
      const bool least = weight.form.scale_dtype == MOERT_DTYPE_F16 && scale == 0x1p-24;
      EXPECT_LE(need, 1 + 0x1p-8) << "a scale that is too small, row " << r;
      if (need > 0 && !least) {
        EXPECT_GE(need, coarse ? 0.49 : 1 - 0x1p-8) << "a scale that is too large, row " << r;
      }
    }
}

void encoding_with(const ScaledFormat& method, const char* zeros, int top) {
  const Int4Form form = int4_form(method.scheme);
  const int64_t out = form.kind == Int4Form::awq ? 24 : 21;
  Int4Weight weight(method.scheme, zeros, out, form.group == 0 ? 40 : 16 * form.group);
  Int4Weight again(method.scheme, zeros, out, weight.in);
  Random random(std::string("encoding ") + zeros + method.scheme);
  std::vector<float> source(static_cast<size_t>(out * weight.in));
  for (size_t i = 0; i < source.size(); ++i) {
    const int row = static_cast<int>(static_cast<int64_t>(i) / weight.in);
    source[i] = static_cast<float>(std::ldexp(random.uniform() + (row % 3 - 1) / 4.0, top - row));
  }
  std::fill_n(source.begin(), weight.in, 0.0f);
  const auto encode = [&](const std::vector<float>& numbers, Int4Weight& into) {
    const TensorView from(static_cast<const void*>(numbers.data()), MOERT_DTYPE_F32,
                          {out, weight.in});
    must("encode",
         [&](auto* e) { return method.table.encode(method.self, from, into.weight->get(), e); });
    into.expect_guards();
    return decoded_rows(method, into.weight->get(), 0, out, weight.in, weight.in);
  };
  const std::vector<float> once = encode(source, weight);
  expect_nearest(weight, source, once);
  for (int64_t c = 0; c < weight.in; ++c) EXPECT_EQ(once[static_cast<size_t>(c)], 0.0f);
  EXPECT_EQ(bytes_of(encode(once, again)), bytes_of(once)) << "encoded otherwise again";
  for (const float wrong : {-HUGE_VALF, std::numeric_limits<float>::quiet_NaN()}) {
    source.back() = wrong;
    const TensorView from(static_cast<const void*>(source.data()), MOERT_DTYPE_F32,
                          {out, weight.in});
    must_fail("a weight that is no number", {MOERT_DATA_LOSS}, [&](auto* e) {
      return method.table.encode(method.self, from, again.weight->get(), e);
    });
  }
  if (form.kind == Int4Form::awq) return;
  weight.set_index(std::vector<int32_t>(static_cast<size_t>(weight.in), 0));
  const TensorView from(static_cast<const void*>(once.data()), MOERT_DTYPE_F32, {out, weight.in});
  must_fail("groups in another order", {MOERT_UNIMPLEMENTED}, [&](auto* e) {
    return method.table.encode(method.self, from, weight.weight->get(), e);
  });
}

void encoding(const ScaledFormat& method) {
  if (method.table.encode == nullptr) throw Skip{"cannot be written"};
  for (const char* zeros : {"none", "stored", "plus_one"}) {
    const Optioned object(method, {{"zeros", zeros}});
    for (const int top : {8, -6}) encoding_with(object.format(), zeros, top);
  }
}

void largest_numbers(const ScaledFormat& method) {
  const Int4Form form = int4_form(method.scheme);
  Int4Weight weight(method.scheme, form.default_zeros(), 8, form.group == 0 ? 8 : 8 * form.group);
  expect_finite(method, weight.weight->get(), 8, weight.in);
}

}  // namespace

const FormatTests& int4_rules() {
  static const FormatTests tests = {{"RefusesScales", refuses},
                                    {"RefusesZeros", refuses_zeros},
                                    {"EncodingGroups", encoding},
                                    {"LargestNumbers", largest_numbers}};
  return tests;
}

}  // namespace moert::conformance
