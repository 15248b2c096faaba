// Rows of the batch and small dense matrices, multiplied in f64: records of device pointers that kernels take by value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace moert::gpu {

enum class Float : uint8_t { bf16, f16, f32, f64 };
constexpr int64_t float_bytes(Float type) {
  return type == Float::f64 ? 8 : type == Float::f32 ? 4 : 2;
}

// Numbers that a thread takes at a time; matrices are padded to whole runs.
constexpr int64_t kRun = 8;
constexpr int64_t whole_runs(int64_t cols) { return (cols + kRun - 1) / kRun * kRun; }

// Elements of any plain type, with strides in elements.
template <class T>
struct Strided {
  T* data = nullptr;
  int64_t row_stride = 0, col_stride = 1;
};

// Rows of floats.
struct FloatRows {
  void* data = nullptr;
  int64_t row_stride = 0, col_stride = 1;
  int64_t tokens = 0, cols = 0;
  Float type = Float::f32;
  bool runs =
      false;  // every run of kRun numbers is whole, dense, and begins at a multiple of 16 bytes
};

// Number c of row t is read as x * (factors[t] * weights[c]); both NULL: as it is.
struct RowNorm {
  const double* factors = nullptr;
  const double* weights = nullptr;  // whole runs, zeros behind the columns
};

// [rows, cols], row-major; rows begin at multiples of 16 bytes and are filled with zeros up to `pitch`, whole runs.
struct DenseMatrix {
  const void* data = nullptr;
  int64_t rows = 0, pitch = 0;
  Float type = Float::f32;
};

// factors[t] = gain / sqrt(mean of row t's squares + eps).
struct FactorsArgs {
  FloatRows rows;
  double eps = 0, gain = 1;
  double* factors = nullptr;
};

}  // namespace moert::gpu
