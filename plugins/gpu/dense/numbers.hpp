// Checked matrices as the f64 kernels take them, and as they are read on the host while they are loaded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "../tensors.hpp"
#include "records.hpp"

namespace moert::gpu {

inline constexpr std::initializer_list<uint32_t> kRowFloats = {MOERT_DTYPE_F32, MOERT_DTYPE_BF16,
                                                               MOERT_DTYPE_F16};
inline constexpr std::initializer_list<uint32_t> kFloats = {MOERT_DTYPE_F32, MOERT_DTYPE_BF16,
                                                            MOERT_DTYPE_F16, MOERT_DTYPE_F64};
bool is_row_float(uint32_t dtype);

template <class T>
Strided<T> strided(const Matrix& m) {
  return {static_cast<T*>(m.data), m.row_stride, m.col_stride};
}
// A vector, each number a row of its own.
template <class T>
Strided<T> column(const Matrix& m) {
  return {static_cast<T*>(m.data), m.col_stride, 0};
}

// Of a float type.
FloatRows float_rows(const Matrix& m);

// On the host, where elements need not be aligned. Of a float type; exact.
double number(const Matrix& m, int64_t row, int64_t col);
// Of I32.
int32_t integer(const Matrix& m, int64_t row, int64_t col);

// Rows of a float matrix on the host, one after the other in its own type, each with zeros up to whole runs.
std::vector<unsigned char> padded_rows(const Matrix& source);

}  // namespace moert::gpu
