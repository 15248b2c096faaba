// From codes and scales of mxfp4 as they lie in a file to columns of panels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/tensor.h>

#include <string>

namespace moert::cpu::simd {

// As pack(), for a weight [N, depth] of e2m1 with scales [N, depth / 32] of e8m0 in its quant record: any strides,
// either order of nibbles. Its quant method has checked it. Throws MOERT_DATA_LOSS with `what` before it for a scale
// that is no number, and for views that hold less than their shape says.
struct CodePacking {
  const moert_tensor_t* weight;
  int64_t first, width;
  unsigned char* panels;
};
void pack_mxfp4(const CodePacking& packing, const std::string& what);

}  // namespace moert::cpu::simd
