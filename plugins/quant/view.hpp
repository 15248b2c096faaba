// What every format asks of a weight's view before it touches an element.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/tensor.hpp>
#include <string_view>

namespace moert::quant {

// Throws unless `tensor` is an array of `dtype` on the host whose elements all lie in its bytes.
// MOERT_DATA_LOSS where the contents contradict the format, MOERT_UNIMPLEMENTED for a flag that must
// be understood and is not.
void expect_array(const moert_tensor_t& tensor, const char* name, uint32_t dtype);
// The same, and it is a matrix.
void expect_matrix(const moert_tensor_t& tensor, const char* name, uint32_t dtype);

// Companions that a scheme may have.
inline constexpr unsigned kScale = 1, kInputScale = 2, kScale2 = 4, kZeroPoint = 8,
                          kGroupIndex = 16;

// Throws MOERT_DATA_LOSS if the record names another scheme, a private layout, or a companion that is
// not among `companions`: one that is there was meant to be used.
void expect_scheme(const moert_quant_view_t& quant, std::string_view scheme, unsigned companions);

// Throws MOERT_DATA_LOSS if the view's quant record names another scheme, a private layout, or any
// companion: a format of plain numbers has none, and one that is there was meant to be used.
void expect_plain(const moert_tensor_t& tensor, std::string_view scheme);

// A weight of so many elements, however it is stored.
struct Size {
  int64_t rows, cols;
};

// Throws MOERT_INVALID_ARGUMENT unless rows [row, row + rows) lie in the weight and a row of the
// destination holds a row of it.
void expect_rows(const Size& weight, int64_t row, int64_t rows, const float* out,
                 int64_t out_stride);
inline void expect_rows(const moert_tensor_t& matrix, int64_t row, int64_t rows, const float* out,
                        int64_t out_stride) {
  expect_rows(Size{matrix.shape[0], matrix.shape[1]}, row, rows, out, out_stride);
}

// Throws MOERT_INVALID_ARGUMENT unless what is to be encoded is an f32 matrix of the weight's size.
void expect_source(const moert_tensor_t& source, const Size& weight);

// An element of an f32 matrix that is to be encoded. Throws MOERT_DATA_LOSS for one that is not finite:
// no code holds it beside a scale.
float finite_at(const moert_tensor_t& source, int64_t row, int64_t col);
// The largest magnitude among `cols` such elements of a row.
float amax_of(const moert_tensor_t& source, int64_t row, int64_t first_col, int64_t cols);

// Address of an element. Checkpoints are mapped files, so it need not be aligned: read and write it
// with memcpy.
inline unsigned char* element(const moert_tensor_t& tensor, int64_t row, int64_t col, size_t size) {
  const int64_t index = row * tensor.strides[0] + col * tensor.strides[1];
  return static_cast<unsigned char*>(tensor.data) + static_cast<size_t>(index) * size;
}

}  // namespace moert::quant
