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
inline constexpr unsigned kScale = 1, kInputScale = 2, kScale2 = 4;

// Throws MOERT_DATA_LOSS if the record names another scheme, a private layout, or a companion that is
// not among `companions`: one that is there was meant to be used.
void expect_scheme(const moert_quant_view_t& quant, std::string_view scheme, unsigned companions);

// Throws MOERT_DATA_LOSS if the view's quant record names another scheme, a private layout, or any
// companion: a format of plain numbers has none, and one that is there was meant to be used.
void expect_plain(const moert_tensor_t& tensor, std::string_view scheme);

// Throws MOERT_INVALID_ARGUMENT unless rows [row, row + rows) lie in the matrix and a row of the
// destination holds a row of it.
void expect_rows(const moert_tensor_t& tensor, int64_t row, int64_t rows, const float* out,
                 int64_t out_stride);

// An element of an f32 matrix that is to be encoded. Throws MOERT_DATA_LOSS for one that is not finite:
// no code holds it beside a scale.
float finite_at(const moert_tensor_t& source, int64_t row, int64_t col);

// Address of an element. Checkpoints are mapped files, so it need not be aligned: read and write it
// with memcpy.
inline unsigned char* element(const moert_tensor_t& tensor, int64_t row, int64_t col, size_t size) {
  const int64_t index = row * tensor.strides[0] + col * tensor.strides[1];
  return static_cast<unsigned char*>(tensor.data) + static_cast<size_t>(index) * size;
}

}  // namespace moert::quant
