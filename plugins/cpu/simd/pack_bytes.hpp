// From codes of eight bits and their scales as they lie in a file to columns of panels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/tensor.h>

#include <string>

#include "scheme.hpp"

namespace moert::cpu::simd {

// As pack(), for a weight [N, depth] of e4m3fn or int8 with the scales of its scheme in its quant record: any strides.
// Its quant method has checked it. `width` is 32 or 64, and `first` 0 or 32. Throws MOERT_DATA_LOSS with `what` before
// it for views that hold less than their shape says.
struct BytePacking {
  const moert_tensor_t* weight;
  const WeightScheme* scheme;
  int64_t first, width;
  unsigned char* panels;
  float factor;  // of all scales; 1 where they are powers
};
void pack_bytes(const BytePacking& packing, const std::string& what);

}  // namespace moert::cpu::simd
