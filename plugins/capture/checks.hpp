// What every capturer of this library asks of a spec, an option and a recorded tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/capture_spec.hpp>
#include <moert/sdk/capturer.hpp>
#include <string>

namespace moert::capture {

// Why none of these capturers takes the spec; empty: all do.
std::string refusal(const moert_capture_spec_t& spec);
// The spec as it is; throws MOERT_UNIMPLEMENTED with its refusal.
moert_capture_spec_t accepted(const moert_capture_spec_t& spec);

// Rows of T in host memory, with strides in elements; valid as long as the tensor.
template <class T>
struct Rows {
  const T* data = nullptr;
  int64_t row_stride = 0, col_stride = 0;

  // Row `r` of `cols` elements, as it lies or gathered into `scratch`.
  const T* row(int64_t r, int64_t cols, T* scratch) const {
    const T* from = data + r * row_stride;
    if (col_stride == 1 || cols == 1) return from;
    for (int64_t c = 0; c < cols; ++c) scratch[c] = from[c * col_stride];
    return scratch;
  }
};

// Throws MOERT_INVALID_ARGUMENT unless `t` has the dtype, at least `rows` rows of `cols` elements (cols 0:
// rank 1), and lies in host memory whole.
void expect_rows(const moert_tensor_t* t, const char* name, uint32_t dtype, int64_t rows,
                 int64_t cols);
template <class T>
Rows<T> rows_of(const moert_tensor_t* t, const char* name, uint32_t dtype, int64_t rows,
                int64_t cols) {
  expect_rows(t, name, dtype, rows, cols);
  return {static_cast<const T*>(t->data), t->strides[0], cols > 0 ? t->strides[1] : 1};
}

// Throws for a row of ids that are not all experts.
[[noreturn]] void refuse_ids(int64_t row, const int32_t* ids, int64_t k, int64_t num_experts);

}  // namespace moert::capture
