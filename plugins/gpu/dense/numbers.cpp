// Checked matrices as the f64 kernels take them, and as they are read on the host while they are loaded.
// SPDX-License-Identifier: Apache-2.0
#include "numbers.hpp"

#include <algorithm>
#include <cstring>

namespace moert::gpu {
namespace {

Float float_type(uint32_t dtype) {
  switch (dtype) {
    case MOERT_DTYPE_F64: return Float::f64;
    case MOERT_DTYPE_F32: return Float::f32;
    case MOERT_DTYPE_BF16: return Float::bf16;
    default: return Float::f16;
  }
}

template <class T>
T loaded(const Matrix& m, int64_t row, int64_t col) {
  T value;
  std::memcpy(&value,
              static_cast<const unsigned char*>(m.data) +
                  (row * m.row_stride + col * m.col_stride) * static_cast<int64_t>(sizeof value),
              sizeof value);
  return value;
}

}  // namespace

bool is_row_float(uint32_t dtype) {
  return std::find(kRowFloats.begin(), kRowFloats.end(), dtype) != kRowFloats.end();
}

FloatRows float_rows(const Matrix& m) {
  FloatRows rows;
  rows.data = m.data;
  rows.row_stride = m.row_stride;
  rows.col_stride = m.col_stride;
  rows.tokens = m.rows;
  rows.cols = m.cols;
  rows.type = float_type(m.dtype);
  rows.runs = m.col_stride == 1 && m.cols % kRun == 0 &&
              reinterpret_cast<uintptr_t>(m.data) % 16 == 0 &&
              (m.rows <= 1 || m.row_stride * float_bytes(rows.type) % 16 == 0);
  return rows;
}

double number(const Matrix& m, int64_t row, int64_t col) {
  switch (float_type(m.dtype)) {
    case Float::f64: return loaded<double>(m, row, col);
    case Float::f32: return static_cast<double>(loaded<float>(m, row, col));
    case Float::bf16: return static_cast<double>(bf16_to_f32(loaded<uint16_t>(m, row, col)));
    default: return static_cast<double>(f16_to_f32(loaded<uint16_t>(m, row, col)));
  }
}

int32_t integer(const Matrix& m, int64_t row, int64_t col) { return loaded<int32_t>(m, row, col); }

std::vector<unsigned char> padded_rows(const Matrix& source) {
  const auto size = static_cast<int64_t>(dtype_bytes(source.dtype, 1));
  const int64_t pitch = whole_runs(source.cols) * size;
  std::vector<unsigned char> rows(static_cast<size_t>(source.rows * pitch));
  for (int64_t r = 0; r < source.rows; ++r) {
    const auto* from =
        static_cast<const unsigned char*>(source.data) + r * source.row_stride * size;
    unsigned char* to = rows.data() + r * pitch;
    if (source.col_stride == 1)
      std::memcpy(to, from, static_cast<size_t>(source.cols * size));
    else
      for (int64_t c = 0; c < source.cols; ++c)
        std::memcpy(to + c * size, from + c * source.col_stride * size, static_cast<size_t>(size));
  }
  return rows;
}

}  // namespace moert::gpu
