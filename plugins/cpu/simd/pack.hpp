// From a matrix as it lies in a file to columns of panels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels.hpp"
#include "matrix.hpp"

namespace moert::cpu::simd {

// Row n of the matrix [N, depth] becomes column `first` + n % `width` of panel n / `width`; what the last panel
// has left of that range becomes zeros. The matrix has the storage's dtype; any strides and alignment.
struct Packing {
  Matrix from;
  Storage storage;
  int64_t first, width;
  unsigned char* panels;
};
void pack(const Packing& packing);

}  // namespace moert::cpu::simd
