// The suite's own quant method for plain floats and mxfp4, so that layers are judged without another plugin.
// SPDX-License-Identifier: Apache-2.0
#include "plain_quant.hpp"

#include <cmath>
#include <moert/sdk/adapter.hpp>
#include <moert/sdk/tensor.hpp>

#include "fp4_weight.hpp"

namespace moert::conformance {
namespace {

constexpr char kWhere[] = "conformance.plain";

// mxfp4 by its definition, in dense rows.
void expect_mxfp4(const moert_tensor_t& t) {
  const moert_tensor_t* scale = t.quant == nullptr ? nullptr : t.quant->scale;
  if (t.rank != 2 || t.shape[1] % 32 != 0 || scale == nullptr ||
      scale->dtype != MOERT_DTYPE_F8_E8M0)
    throw PluginError(MOERT_DATA_LOSS, "found " + tensor_text(t) + ", expected mxfp4");
}

float mxfp4_number(const moert_tensor_t& t, int64_t row, int64_t col) {
  const int64_t index = row * t.shape[1] + col;
  const auto pair = static_cast<uint32_t>(static_cast<const unsigned char*>(t.data)[index / 2]);
  const int scale = static_cast<const unsigned char*>(t.quant->scale->data)[index / 32];
  const double value = e2m1_value(index % 2 == 0 ? pair & 15u : pair >> 4);
  return scale == 255 ? std::nanf("") : static_cast<float>(std::ldexp(value, scale - 127));
}

void expect_plain(const moert_tensor_t& t) {
  if (t.dtype == MOERT_DTYPE_F4_E2M1) return expect_mxfp4(t);
  const bool known =
      t.dtype == MOERT_DTYPE_F32 || t.dtype == MOERT_DTYPE_BF16 || t.dtype == MOERT_DTYPE_F16;
  if (!known || t.rank != 2)
    throw PluginError(MOERT_DATA_LOSS, "found " + tensor_text(t) + ", expected a matrix of floats");
  must_understand(t.flags & 0xffff0000u, 0, "tensor");
}

moert_code_t supports(const moert_host_t*, const char*, moert_support_t* out,
                      moert_error_t* error) {
  return detail::guarded(error, kWhere, [&] { detail::write_support(Support::yes(), out); });
}

moert_code_t check(void*, const moert_tensor_t* weight, moert_error_t* error) {
  return detail::guarded(error, kWhere, [&] { expect_plain(*weight); });
}

moert_code_t decode(void*, const moert_tensor_t* weight, int64_t row, int64_t rows, float* out,
                    int64_t out_stride, moert_error_t* error) {
  return detail::guarded(error, kWhere, [&] {
    expect_plain(*weight);
    if (row < 0 || rows < 0 || row + rows > weight->shape[0])
      throw PluginError(MOERT_INVALID_ARGUMENT, "rows outside the matrix");
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < weight->shape[1]; ++c)
        out[r * out_stride + c] =
            weight->dtype == MOERT_DTYPE_F4_E2M1
                ? mxfp4_number(*weight, row + r, c)
                : read_f32(*weight, (row + r) * weight->strides[0] + c * weight->strides[1]);
  });
}

moert_code_t scale_rows(void*, float* rows, int64_t tokens, int64_t cols,
                        const moert_tensor_t* input_scale, moert_error_t* error) {
  return detail::guarded(error, kWhere, [&] {
    if (input_scale == nullptr)
      throw PluginError(MOERT_INVALID_ARGUMENT, "rows came without the weight's input scale");
    for (int64_t i = 0; i < tokens * cols; ++i) rows[i] *= read_f32(*input_scale, 0);
  });
}

constexpr moert_quant_method_t kTable = {sizeof(moert_quant_method_t),
                                         0,
                                         &supports,
                                         nullptr,
                                         nullptr,
                                         nullptr,
                                         nullptr,
                                         &check,
                                         &decode,
                                         nullptr,
                                         &scale_rows};

}  // namespace

const moert_quant_method_t& plain_quant() { return kTable; }

}  // namespace moert::conformance
