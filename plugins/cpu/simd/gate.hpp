// The multiplication of rows with a router's gate, as the code around it sees it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace moert::cpu::simd {

// A gate lies in panels of 32 experts, [H][32] each, as f32 or f64; what lies beyond E are zeros.
inline constexpr int64_t kGatePanel = 32;

// sums[r][e] (+)= sum over d < depth of rows[r][d] * panel[d][e], r < count, e < 32; in f64.
//
// Every element is one chain with d rising, as the oracle's is, and each of its steps gives what a product that is
// rounded and a sum that is rounded give. So the sums have the oracle's bits, whatever `count` is and however the
// depth is cut.
struct GateProduct {
  const double* rows;
  int64_t stride;  // from one row to the next
  int64_t count;
  const float* singles;   // the panel as f32, or null
  const double* doubles;  // the panel as f64 where it isn't
  // Rows and panel hold numbers of f32 only, so that f64 has every product as it is. Only with `singles`.
  bool exact;
  int64_t depth;
  double* sums;  // [count][32]
  bool add;
};

}  // namespace moert::cpu::simd
