// Rows on their way into a multiplication that cannot read them where they are.
// SPDX-License-Identifier: Apache-2.0
#include "rows.hpp"

#include <cstring>
#include <moert/sdk/dtypes.hpp>

namespace moert::cpu::simd {
namespace {

template <class T, class Widen>
void widen(const Matrix& rows, int64_t t, float factor, float* to, Widen wide) {
  const unsigned char* from = rows.row_at(t);
  const int64_t step = rows.col_stride() * static_cast<int64_t>(sizeof(T));
  for (int64_t c = 0; c < rows.cols(); ++c) {
    T value;
    std::memcpy(&value, from + c * step, sizeof value);
    to[c] = wide(value) * factor;
  }
}

}  // namespace

void row_to_f32(const Matrix& rows, int64_t t, float factor, float* to) {
  switch (rows.dtype()) {
    case MOERT_DTYPE_BF16: return widen<uint16_t>(rows, t, factor, to, bf16_to_f32);
    case MOERT_DTYPE_F16: return widen<uint16_t>(rows, t, factor, to, f16_to_f32);
    default: return widen<float>(rows, t, factor, to, [](float x) { return x; });
  }
}

void row_to_bf16(const Matrix& rows, int64_t t, uint16_t* to) {
  for (int64_t c = 0; c < rows.cols(); ++c)
    std::memcpy(to + c, rows.row_at(t) + c * rows.col_stride() * 2, 2);
}

}  // namespace moert::cpu::simd
