// SPDX-License-Identifier: Apache-2.0
#include "quant_object.hpp"

#include <cmath>
#include <limits>

#include "suite.hpp"

namespace moert::conformance {
namespace {

std::vector<moert_kv_t> records(const Options& options) {
  std::vector<moert_kv_t> all;
  for (const auto& [key, value] : options) all.push_back({key, value});
  return all;
}

}  // namespace

Optioned::Optioned(const ScaledFormat& method, const Options& options)
    : host_(1), table_(method.table), scheme_(method.scheme) {
  ErrorRecord error;
  const std::vector<moert_kv_t> all = records(options);
  if (table_.create(host_.table(), scheme_.c_str(), all.data(), static_cast<uint32_t>(all.size()),
                    &self_, error.get()) == MOERT_OK)
    return;
  std::string text;
  for (const auto& [key, value] : options) text += std::string(" ") + key + ": " + value;
  throw Skip{"not offered:" + text};
}

void must_not_take(const ScaledFormat& method, const char* key, const char* value) {
  TestHost host(1);
  const moert_kv_t option = {key, value};
  void* other = nullptr;
  must_fail("a word that the option does not have", {MOERT_INVALID_ARGUMENT}, [&](auto* e) {
    return method.table.create(host.table(), method.scheme.c_str(), &option, 1, &other, e);
  });
}

std::vector<moert_quant_param_t> parameters_of(const ScaledFormat& method, int64_t rows,
                                               int64_t cols) {
  moert_quant_param_t all[8];
  uint32_t count = 0;
  must("parameters", [&](auto* e) {
    return method.table.parameters(method.self, rows, cols, all, 8, &count, e);
  });
  if (count > 8) stop("a weight of more than eight tensors");
  return {all, all + count};
}

const moert_quant_param_t* find_param(const std::vector<moert_quant_param_t>& all, uint32_t param) {
  for (const moert_quant_param_t& each : all)
    if (each.param == param) return &each;
  return nullptr;
}

std::vector<float> decoded_rows(const ScaledFormat& method, const moert_tensor_t* weight,
                                int64_t first, int64_t rows, int64_t cols, int64_t stride) {
  std::vector<float> out(static_cast<size_t>(rows * stride), 77.0f);
  must("decode", [&](auto* e) {
    return method.table.decode(method.self, weight, first, rows, out.data(), stride, e);
  });
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = cols; c < stride; ++c)
      EXPECT_EQ(out[static_cast<size_t>(r * stride + c)], 77.0f) << "written behind row " << r;
  return out;
}

void must_refuse(const ScaledFormat& method, const char* what, const moert_tensor_t* view,
                 int64_t cols, std::initializer_list<moert_code_t> codes) {
  must_fail(what, codes, [&](auto* e) { return method.table.check(method.self, view, e); });
  std::vector<float> out(static_cast<size_t>(cols));
  must_fail(what, codes, [&](auto* e) {
    return method.table.decode(method.self, view, 0, 1, out.data(), cols, e);
  });
}

void expect_finite(const ScaledFormat& method, const moert_tensor_t* weight, int64_t rows,
                   int64_t cols) {
  if (method.table.encode == nullptr) throw Skip{"cannot be written"};
  constexpr float kMax = std::numeric_limits<float>::max();
  std::vector<float> source(static_cast<size_t>(rows * cols));
  for (size_t i = 0; i < source.size(); ++i) source[i] = i % 3 == 0 ? -kMax : kMax;
  const TensorView from(static_cast<const void*>(source.data()), MOERT_DTYPE_F32, {rows, cols});
  const auto encoded = [&] {
    must("encode", [&](auto* e) { return method.table.encode(method.self, from, weight, e); });
    return decoded_rows(method, weight, 0, rows, cols, cols);
  };
  const std::vector<float> once = encoded();
  for (size_t i = 0; i < source.size(); ++i)
    ASSERT_TRUE(std::isfinite(once[i]) && once[i] != 0 &&
                std::signbit(once[i]) == std::signbit(source[i]))
        << source[i] << " became " << once[i];
  source = once;
  EXPECT_EQ(encoded(), once) << "what was decoded is encoded otherwise";
}

void expect_input_scale(const ScaledFormat& method, const moert_tensor_t* weight,
                        moert_quant_view_t& quant, int64_t rows, int64_t cols) {
  const auto all = parameters_of(method, rows, cols);
  const moert_quant_param_t* param = find_param(all, MOERT_PARAM_INPUT_SCALE);
  if (param == nullptr) return stop("no input scale among the parameters");
  EXPECT_EQ(param->required, 1u);
  EXPECT_EQ(param->dtype, uint32_t{MOERT_DTYPE_F32});
  EXPECT_EQ(param->rank, 0u);
  const auto check = [&](auto* e) { return method.table.check(method.self, weight, e); };
  quant.input_scale = nullptr;
  must_fail("no input scale", {MOERT_DATA_LOSS}, check);
  float value = 0.5f;
  const void* data = &value;
  const TensorView scalar(data, MOERT_DTYPE_F32, {}), one(data, MOERT_DTYPE_F32, {1});
  for (const moert_tensor_t* good : {scalar.get(), one.get()}) {
    quant.input_scale = good;
    must("check with an input scale", check);
  }
  const TensorView several(data, MOERT_DTYPE_F32, {0}), other(data, MOERT_DTYPE_I32, {});
  for (const moert_tensor_t* wrong : {several.get(), other.get()}) {
    quant.input_scale = wrong;
    must_fail("an input scale of another shape or dtype", {MOERT_DATA_LOSS}, check);
  }
  quant.input_scale = scalar;
  float row[1] = {1};
  for (const float wrong : {0.0f, -1.0f, HUGE_VALF, std::numeric_limits<float>::quiet_NaN()}) {
    value = wrong;
    must_fail("an input scale that is no number above 0", {MOERT_DATA_LOSS}, check);
    must_fail("rows by such a scale", {MOERT_DATA_LOSS}, [&](auto* e) {
      return method.table.quantize_activations(method.self, row, 1, 1, scalar, e);
    });
  }
  must_fail("rows without an input scale", {MOERT_DATA_LOSS}, [&](auto* e) {
    return method.table.quantize_activations(method.self, row, 1, 1, nullptr, e);
  });
  EXPECT_EQ(row[0], 1.0f);
  quant.input_scale = nullptr;
}

}  // namespace moert::conformance
