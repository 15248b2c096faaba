// Where one expert's packed tensors lie.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/problem.h>

#include "kernels.hpp"
#include "mlp_shape.hpp"

namespace moert::cpu::simd {

// One expert is one run of bytes: panels of gate and up, panels of down, biases (f32, [panels][64] each).
//
// A panel of the first projection holds 32 columns of gate and the same 32 of up, so that whoever has summed it
// up has all that the activation needs; without a gate half it holds 64 columns of up. What lies beyond I and
// H are zeros.
struct Layout {
  MlpShape shape;
  PanelFormat format;
  int64_t width = 0;  // numbers of the middle that a panel of the first projection gives
  int64_t up_panels = 0;
  int64_t down_panels = 0;
  int64_t down_first = 0;  // bytes from the expert's first one
  int64_t bias_first = 0;
  int64_t bytes = 0;  // of an expert; a multiple of 64

  // False if the sizes do not fit 62 bits.
  static bool make(const MlpShape& shape, const PanelFormat& format, Layout* out);

  int64_t up_panel(int64_t panel) const { return panel * panel_bytes(format, shape.hidden); }
  int64_t down_panel(int64_t panel) const {
    return down_first + panel * panel_bytes(format, shape.intermediate);
  }
  int64_t up_bias(int64_t panel) const { return bias_first + panel * kPanel * 4; }
  int64_t down_bias(int64_t panel) const { return up_bias(up_panels + panel); }
  // Numbers of a row of the middle, with those of its last panel that are not part of it.
  int64_t middle() const { return up_panels * width; }
};

}  // namespace moert::cpu::simd
