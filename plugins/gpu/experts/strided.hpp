// Matrices on a device as kernels read and write them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace moert::gpu {

enum class Number : uint8_t { f32, bf16, f16 };
constexpr int64_t number_bytes(Number number) { return number == Number::f32 ? 4 : 2; }

// Strides count elements.
struct StridedRows {
  void* data = nullptr;
  int64_t row_stride = 0, col_stride = 1;
  Number number = Number::f32;
};

// Of ids and of weights: a number for each slot.
template <class T>
struct StridedSlots {
  const T* data = nullptr;
  int64_t row_stride = 0, col_stride = 1;
};

}  // namespace moert::gpu
