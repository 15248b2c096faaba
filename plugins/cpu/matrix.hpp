// Matrices across the border: checked once, then read as f64 and written with one rounding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <moert/sdk/adapter.hpp>
#include <moert/sdk/tensor.hpp>

namespace moert::cpu {

// A view of host memory that was checked. Elements need not be aligned: weights come from files.
class Matrix {
 public:
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  // Exact: every dtype that is accepted fits f64.
  double number(int64_t row, int64_t col) const;
  // to[i] = number(row, first + i) for i < count.
  void numbers(int64_t row, int64_t first, int64_t count, double* to) const;
  int32_t integer(int64_t row, int64_t col) const;
  // Rounds once, to nearest even, whatever the dtype.
  void set(int64_t row, int64_t col, double value) const;
  void set_integer(int64_t row, int64_t col, int32_t value) const;

  // For those who read the bytes themselves.
  unsigned char* row_at(int64_t row) const { return data_ + row * row_stride_ * size_; }
  int64_t row_stride() const { return row_stride_; }  // in elements
  int64_t col_stride() const { return col_stride_; }
  bool contiguous_rows() const { return cols_ <= 1 || col_stride_ == 1; }
  uint32_t dtype() const { return dtype_; }

 private:
  friend Matrix matrix(const moert_tensor_t*, const char*, std::initializer_list<uint32_t>, int64_t,
                       int64_t, moert_code_t);
  unsigned char* at(int64_t row, int64_t col) const {
    return data_ + (row * row_stride_ + col * col_stride_) * size_;
  }
  unsigned char* data_ = nullptr;
  int64_t rows_ = 0, cols_ = 0, row_stride_ = 0, col_stride_ = 0, size_ = 0;
  uint32_t dtype_ = MOERT_DTYPE_INVALID;
};

inline constexpr std::initializer_list<uint32_t> kFloats = {MOERT_DTYPE_F32, MOERT_DTYPE_BF16,
                                                            MOERT_DTYPE_F16, MOERT_DTYPE_F64};

// Checks presence, flags, device, dtype, shape and extent. A vector counts as a matrix of one row.
// -1 for `rows` or `cols` is any size. A wrong dtype, shape or extent is reported as `mismatch`;
// everything else is MOERT_INVALID_ARGUMENT or, for a flag, MOERT_UNIMPLEMENTED.
Matrix matrix(const moert_tensor_t* tensor, const char* name,
              std::initializer_list<uint32_t> dtypes, int64_t rows, int64_t cols,
              moert_code_t mismatch = MOERT_INVALID_ARGUMENT);

// Product of sizes that are >= 0; false if it does not fit 62 bits.
bool product(std::initializer_list<int64_t> factors, int64_t* out);

// True for dtypes that Matrix reads and writes as numbers.
bool is_float(uint32_t dtype);

}  // namespace moert::cpu
