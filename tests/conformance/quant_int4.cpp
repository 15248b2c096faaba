// quant_method: four-bit integers, eight to a word, "int4_<packed|gptq|awq>.<g<size>|channel>.<f32|bf16|f16>".
// SPDX-License-Identifier: Apache-2.0
#include "quant_int4.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "int4_weight.hpp"
#include "suite.hpp"

namespace moert::conformance {
namespace {

constexpr const char* kZeros[] = {"none", "stored", "plus_one"};

// Columns of three groups.
int64_t width_of(const Int4Form& form) {
  return form.group == 0 ? 40 : 3 * std::lcm(form.group, int64_t{8});
}
// Rows that are no whole words, where words do not follow them.
int64_t height_of(const Int4Form& form) { return form.kind == Int4Form::awq ? 24 : 21; }

using Shape = std::vector<int64_t>;

void expect_param(const ScaledFormat& method, int64_t rows, int64_t cols, uint32_t param,
                  uint32_t dtype, bool required, const Shape& shape) {
  const auto all = parameters_of(method, rows, cols);
  const moert_quant_param_t* found = find_param(all, param);
  ASSERT_NE(found, nullptr) << "parameter " << param;
  EXPECT_EQ(found->dtype, dtype) << "parameter " << param;
  EXPECT_EQ(found->required, required ? 1u : 0u) << "parameter " << param;
  EXPECT_EQ(Shape(found->shape, found->shape + found->rank), shape) << "parameter " << param;
}

void parameters(const ScaledFormat& method) {
  const Int4Form form = int4_form(method.scheme);
  const int64_t in = width_of(form), groups = form.groups(in),
                multiple = form.group == 0 ? 8 : in / 3;
  const uint32_t words = MOERT_DTYPE_I32;
  for (const char* zeros : kZeros) {
    const Optioned object(method, {{"zeros", zeros}});
    const ScaledFormat format = object.format();
    const bool packed = form.kind == Int4Form::packed, awq = form.kind == Int4Form::awq;
    const Shape weight = packed ? Shape{24, in / 8} : awq ? Shape{in, 3} : Shape{in / 8, 24};
    expect_param(format, 24, in, MOERT_PARAM_WEIGHT, words, true, weight);
    expect_param(format, 24, in, MOERT_PARAM_SCALE, form.scale_dtype, true,
                 packed ? Shape{24, groups} : Shape{groups, 24});
    const auto all = parameters_of(format, 24, in);
    if (std::string(zeros) == "none")
      EXPECT_EQ(find_param(all, MOERT_PARAM_ZERO_POINT), nullptr);
    else
      expect_param(format, 24, in, MOERT_PARAM_ZERO_POINT, words, true,
                   packed ? Shape{3, groups} : Shape{groups, 3});
    if (awq)
      EXPECT_EQ(find_param(all, MOERT_PARAM_GROUP_INDEX), nullptr);
    else
      expect_param(format, 24, in, MOERT_PARAM_GROUP_INDEX, words, false, {in});
    moert_quant_param_t none[8];
    uint32_t count = 0;
    const auto refused = [&](const char* what, int64_t rows, int64_t cols) {
      must_fail(what, {MOERT_INVALID_ARGUMENT}, [&](auto* e) {
        return format.table.parameters(format.self, rows, cols, none, 8, &count, e);
      });
    };
    refused("a part of a group", 24, in - 1);
    refused("a part of a word", 24, in + 4);
    if (awq) refused("a part of a word of rows", 21, in);
  }
  int64_t h = 1, i = multiple + 1;
  must("round_sizes", [&](auto* e) { return method.table.round_sizes(method.self, &h, &i, e); });
  EXPECT_EQ(h, multiple);
  EXPECT_EQ(i, 2 * multiple);
  must_not_take(method, "zeros", "some");
}

void expect_numbers(const Int4Weight& weight, const std::vector<float>& got, int64_t first,
                    int64_t rows, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < weight.in; ++c)
      ASSERT_EQ(got[static_cast<size_t>(r * stride + c)], weight.number(first + r, c))
          << "zeros " << weight.zeros << ", row " << first + r << ", column " << c;
}

void expect_whole(const ScaledFormat& method, const Int4Weight& weight) {
  must("check", [&](auto* e) { return method.table.check(method.self, weight.weight->get(), e); });
  const auto got = decoded_rows(method, weight.weight->get(), 0, weight.out, weight.in, weight.in);
  expect_numbers(weight, got, 0, weight.out, weight.in);
}

// Every code under every zero, by each meaning of zeros; then any, rows from the middle.
void every_code(const ScaledFormat& method) {
  const Int4Form form = int4_form(method.scheme);
  for (const char* zeros : kZeros) {
    const Optioned object(method, {{"zeros", zeros}});
    Int4Weight weight(method.scheme, zeros, height_of(form), width_of(form));
    Random random(std::string("every ") + zeros + method.scheme);
    weight.draw(random);
    const int64_t first = 3, rows = weight.out - 5, stride = weight.in + 3;
    expect_numbers(
        weight, decoded_rows(object.format(), weight.weight->get(), first, rows, weight.in, stride),
        first, rows, stride);
    for (int64_t i = 0; i < weight.out * weight.in; ++i)
      weight.code[static_cast<size_t>(i)] = static_cast<uint32_t>(i % weight.in % 16);
    if (weight.zero_point != nullptr)
      for (int64_t i = 0; i < weight.out * weight.groups; ++i)
        weight.zero[static_cast<size_t>(i)] = static_cast<uint32_t>(i / weight.groups % 16);
    weight.store();
    expect_whole(object.format(), weight);
    weight.expect_guards();
  }
}

// Without the option, zeros are what files of the format have; a code that is the zero is 0 under any scale.
void default_zeros(const ScaledFormat& method) {
  const Int4Form form = int4_form(method.scheme);
  Int4Weight weight(method.scheme, form.default_zeros(), height_of(form), width_of(form));
  Random random("default " + method.scheme);
  weight.draw(random);
  expect_whole(method, weight);
  std::fill(weight.code.begin(), weight.code.end(), 8);
  std::fill(weight.zero.begin(), weight.zero.end(), weight.zeros == "plus_one" ? 7 : 8);
  for (double& scale : weight.scale) scale *= random.below(2) == 0 ? -1 : 1;
  weight.store();
  for (const float x :
       decoded_rows(method, weight.weight->get(), 0, weight.out, weight.in, weight.in))
    EXPECT_EQ(x, 0.0f);
}

// A word that was packed by hand: the codes 0 to 7 of the first eight columns, or in AWQ rows.
void first_word(const ScaledFormat& method) {
  const Int4Form form = int4_form(method.scheme);
  const Optioned object(method, {{"zeros", "none"}});
  Int4Weight weight(method.scheme, "none", 8, width_of(form));
  weight.store();
  std::vector<uint32_t> words = values_of<uint32_t>(weight.weight->read());
  words[0] = form.kind == Int4Form::awq ? 0x75316420 : 0x76543210;
  weight.weight->buffer().write(bytes_of(words));
  const auto got = decoded_rows(object.format(), weight.weight->get(), 0, 8, weight.in, weight.in);
  for (int64_t i = 0; i < 8; ++i) {
    const int64_t at = form.kind == Int4Form::awq ? i * weight.in : i;
    EXPECT_EQ(got[static_cast<size_t>(at)], static_cast<float>(i - 8)) << i;
  }
  EXPECT_EQ(got[static_cast<size_t>(form.kind == Int4Form::awq ? 1 : weight.in)], 0.0f);
}

// Columns of a group need not follow each other.
void group_index(const ScaledFormat& method) {
  const Int4Form form = int4_form(method.scheme);
  Int4Weight weight(method.scheme, form.default_zeros(), height_of(form), width_of(form));
  Random random("index " + method.scheme);
  weight.draw(random);
  std::vector<int32_t> index(static_cast<size_t>(weight.in));
  for (size_t c = 0; c < index.size(); ++c)
    index[c] = static_cast<int32_t>(random.below(weight.groups));
  weight.set_index(index);
  const auto refused = [&](const char* what) {
    must_refuse(method, what, weight.weight->get(), weight.in);
  };
  if (form.kind == Int4Form::awq) return refused("a group index, which the format does not have");
  expect_whole(method, weight);
  for (const int64_t wrong : {int64_t{-1}, weight.groups, int64_t{INT32_MIN}}) {
    std::vector<int32_t> other = index;
    other.back() = static_cast<int32_t>(wrong);
    weight.set_index(other);
    refused("a group that there is not");
  }
  std::vector<int32_t> longer = index;
  longer.push_back(0);
  weight.set_index(longer);
  refused("an index of another length");
  weight.set_index(index);
  moert_tensor_t floats = *weight.group_index->get();
  floats.dtype = MOERT_DTYPE_F32;
  weight.quant.group_index = &floats;
  refused("an index of another dtype");
}

// Tensors that lie across the file.
void transposed(const ScaledFormat& method) {
  const Int4Form form = int4_form(method.scheme);
  Int4Weight weight(method.scheme, form.default_zeros(), height_of(form), width_of(form));
  Random random("transposed " + method.scheme);
  weight.draw(random);
  for (Tensor* tensor : {weight.weight.get(), weight.scales.get(), weight.zero_point.get()}) {
    if (tensor == nullptr) continue;
    const moert_tensor_t& t = *tensor->get();
    const auto rows = static_cast<size_t>(t.shape[0]), cols = static_cast<size_t>(t.shape[1]);
    const size_t size = static_cast<size_t>(dtype_bytes(t.dtype, 1));
    const Bytes from = tensor->read();
    Bytes to(from.size());
    for (size_t r = 0; r < rows; ++r)
      for (size_t c = 0; c < cols; ++c)
        std::memcpy(&to[(c * rows + r) * size], &from[(r * cols + c) * size], size);
    tensor->buffer().write(to);
    tensor->view().set_stride(0, 1, to.size());
    tensor->view().set_stride(1, static_cast<int64_t>(rows), to.size());
  }
  expect_whole(method, weight);
}

}  // namespace

bool is_int4(const std::string& scheme) { return int4_form(scheme).scale_dtype != 0; }

const FormatTests& int4_tests() {
  static const FormatTests tests = [] {
    FormatTests all = {{"StoredShapes", parameters},    {"EveryCode", every_code},
                       {"DefaultZeros", default_zeros}, {"FirstWord", first_word},
                       {"GroupIndex", group_index},     {"TransposedWords", transposed}};
    all.insert(all.end(), int4_rules().begin(), int4_rules().end());
    return all;
  }();
  return tests;
}

}  // namespace moert::conformance
