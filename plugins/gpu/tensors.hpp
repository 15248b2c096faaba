// Matrices across the border, checked once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/adapter.hpp>
#include <moert/sdk/tensor.hpp>

#include <initializer_list>

#include "experts/strided.hpp"

namespace moert::gpu {

// A vector is a matrix of one row.
struct Matrix {
  void* data = nullptr;
  int64_t rows = 0, cols = 0, row_stride = 0, col_stride = 0;  // strides in elements
  uint32_t dtype = MOERT_DTYPE_INVALID;

  // Of f32, bf16 or f16.
  StridedRows numbers() const;
  template <class T>
  StridedSlots<T> slots() const {
    return {static_cast<const T*>(data), row_stride, col_stride};
  }
};

// Checks presence, flags, device, dtype, shape, extent, and that elements are aligned where they are on a device. -1
// for `rows` or `cols` is any size. A wrong dtype, shape or extent is reported as `mismatch`; everything else is
// MOERT_INVALID_ARGUMENT or, for a flag, MOERT_UNIMPLEMENTED.
Matrix matrix(const moert_tensor_t* tensor, const char* name,
              std::initializer_list<uint32_t> dtypes, int64_t rows, int64_t cols,
              moert_device_id_t device, moert_code_t mismatch = MOERT_INVALID_ARGUMENT);

// Why nothing can be on this device: it is another backend's, or there is none of that number. Empty if it is there.
std::string device_refusal(moert_device_id_t device);

// The toolkit's handle of a stream. Throws MOERT_INVALID_ARGUMENT unless it belongs to `device`.
void* native_stream(const moert_stream_t* stream, moert_device_id_t device);

// Throws MOERT_INVALID_ARGUMENT unless there are `needed` bytes, aligned to 256.
void expect_workspace(const void* workspace, uint64_t bytes, uint64_t needed);

// Product of sizes that are >= 0; false if it does not fit 62 bits.
bool product(std::initializer_list<int64_t> factors, int64_t* out);

// "cuda:1"
std::string device_text(moert_device_id_t device);

}  // namespace moert::gpu
