// SPDX-License-Identifier: Apache-2.0
#include "int4_weight.hpp"

#include <cmath>
#include <cstdio>

#include "suite.hpp"

namespace moert::conformance {
namespace {

uint32_t at(const std::vector<uint32_t>& codes, int64_t row, int64_t col, int64_t rows,
            int64_t cols) {
  return row < rows && col < cols ? codes[static_cast<size_t>(row * cols + col)] : 0;
}

int64_t eighth(int64_t size) { return (size + 7) / 8; }

// A word for each [row, col] of a matrix of words, whose p-th nibble is nibble(row, col, p).
template <class Nibble>
Words packed_by(int64_t rows, int64_t cols, Nibble nibble) {
  Words words{{rows, cols}, {}};
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t col = 0; col < cols; ++col) {
      uint32_t word = 0;
      for (int p = 0; p < 8; ++p) word |= nibble(row, col, p) << (4 * p);
      words.word.push_back(word);
    }
  return words;
}

// AWQ's order: which of eight outputs lies in the p-th nibble.
constexpr int kAwqOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};

Words outputs_along(Int4Form::Kind kind, const std::vector<uint32_t>& codes, int64_t out,
                    int64_t along) {
  return packed_by(along, eighth(out), [&](int64_t row, int64_t col, int p) {
    return at(codes, 8 * col + (kind == Int4Form::awq ? kAwqOrder[p] : p), row, out, along);
  });
}

Bytes bytes_of_words(const Words& words) { return bytes_of(words.word); }

std::unique_ptr<Tensor> tensor_of(Place& place, uint32_t dtype, const std::vector<int64_t>& shape) {
  return shape.size() == 1
             ? std::make_unique<Tensor>(place, dtype, std::initializer_list<int64_t>{shape[0]})
             : std::make_unique<Tensor>(place, dtype,
                                        std::initializer_list<int64_t>{shape[0], shape[1]});
}

}  // namespace

Int4Form int4_form(const std::string& scheme) {
  Int4Form form;
  const std::pair<const char*, Int4Form::Kind> kinds[] = {{"int4_packed.", Int4Form::packed},
                                                          {"int4_gptq.", Int4Form::gptq},
                                                          {"int4_awq.", Int4Form::awq}};
  for (const auto& [name, kind] : kinds) {
    const std::string prefix = name;
    if (scheme.compare(0, prefix.size(), prefix) != 0) continue;
    form.kind = kind;
    const std::string rest = scheme.substr(prefix.size());
    const size_t dot = rest.find('.');
    if (dot == std::string::npos) return form;
    long long group = 0;
    if (rest.substr(0, dot) != "channel" && std::sscanf(rest.c_str(), "g%lld.", &group) != 1)
      return form;
    form.group = group;
    for (const uint32_t dtype : {MOERT_DTYPE_F32, MOERT_DTYPE_BF16, MOERT_DTYPE_F16})
      if (rest.substr(dot + 1) == dtype_name(dtype)) form.scale_dtype = dtype;
  }
  return form;
}

Words weight_words(Int4Form::Kind kind, const std::vector<uint32_t>& codes, int64_t out,
                   int64_t in) {
  if (kind == Int4Form::packed)
    return packed_by(out, eighth(in), [&](int64_t row, int64_t col, int p) {
      return at(codes, row, 8 * col + p, out, in);
    });
  if (kind == Int4Form::gptq)
    return packed_by(eighth(in), out, [&](int64_t row, int64_t col, int p) {
      return at(codes, col, 8 * row + p, out, in);
    });
  return outputs_along(kind, codes, out, in);
}

Words zero_words(Int4Form::Kind kind, const std::vector<uint32_t>& codes, int64_t out,
                 int64_t groups) {
  if (kind == Int4Form::packed)
    return packed_by(eighth(out), groups, [&](int64_t row, int64_t col, int p) {
      return at(codes, 8 * row + p, col, out, groups);
    });
  return outputs_along(kind, codes, out, groups);
}

Int4Weight::Int4Weight(const std::string& scheme, const std::string& zeros_word, int64_t out_size,
                       int64_t in_size)
    : scheme_(scheme),
      form(int4_form(scheme)),
      zeros(zeros_word),
      out(out_size),
      in(in_size),
      groups(form.groups(in)),
      code(static_cast<size_t>(out * in), 8),
      zero(static_cast<size_t>(out * groups), zeros == "plus_one" ? 7 : 8),
      scale(static_cast<size_t>(out * groups), 1) {
  const bool packed = form.kind == Int4Form::packed;
  weight = tensor_of(place_, MOERT_DTYPE_I32, weight_words(form.kind, code, out, in).shape);
  scales = tensor_of(place_, form.scale_dtype,
                     packed ? std::vector{out, groups} : std::vector{groups, out});
  if (zeros != "none")
    zero_point = tensor_of(place_, MOERT_DTYPE_I32, zero_words(form.kind, zero, out, groups).shape);
  quant.struct_size = sizeof quant;
  quant.scheme = scheme_.c_str();
  quant.layout = "canonical";
  quant.scale = scales->get();
  quant.zero_point = zero_point != nullptr ? zero_point->get() : nullptr;
  weight->view().set_quant(&quant);
}

void Int4Weight::draw(Random& random) {
  for (auto& each : code) each = static_cast<uint32_t>(random.below(16));
  if (zeros != "none")
    for (auto& each : zero) each = static_cast<uint32_t>(random.below(16));
  for (double& each : scale)
    each = std::ldexp(random.uniform() + 1.5, static_cast<int>(random.below(20)) - 10);
  scale = rounded(form.scale_dtype, scale).number;
  store();
}

void Int4Weight::store() {
  weight->buffer().write(bytes_of_words(weight_words(form.kind, code, out, in)));
  std::vector<double> stored(scale.size());
  for (int64_t r = 0; r < out; ++r)
    for (int64_t g = 0; g < groups; ++g)
      stored[static_cast<size_t>(form.kind == Int4Form::packed ? r * groups + g : g * out + r)] =
          scale[static_cast<size_t>(r * groups + g)];
  scales->buffer().write(rounded(form.scale_dtype, stored).bytes);
  if (zero_point != nullptr)
    zero_point->buffer().write(bytes_of_words(zero_words(form.kind, zero, out, groups)));
}

void Int4Weight::set_index(const std::vector<int32_t>& of_columns) {
  index = of_columns;
  group_index = tensor_of(place_, MOERT_DTYPE_I32, {static_cast<int64_t>(index.size())});
  group_index->buffer().write(bytes_of(index));
  quant.group_index = group_index->get();
}

float Int4Weight::number(int64_t r, int64_t c) const {
  const int64_t consecutive = form.group == 0 ? 0 : c / form.group;
  const int64_t g = index.empty() ? consecutive : index[static_cast<size_t>(c)];
  const auto group = static_cast<size_t>(r * groups + g);
  const int middle =
      zeros == "none" ? 8 : static_cast<int>(zero[group]) + (zeros == "plus_one" ? 1 : 0);
  const int value = static_cast<int>(code[static_cast<size_t>(r * in + c)]) - middle;
  return static_cast<float>(value * scale[group]);
}

void Int4Weight::expect_guards() const {
  weight->buffer().expect_guards("the weight");
  scales->buffer().expect_guards("the scale");
  if (zero_point != nullptr) zero_point->buffer().expect_guards("the zero point");
}

}  // namespace moert::conformance
