// Where one expert's packed tensors lie.
// SPDX-License-Identifier: Apache-2.0
#include "layout.hpp"

#include "matrix.hpp"

namespace moert::cpu::simd {

bool Layout::make(const MlpShape& shape, const PanelFormat& format, Layout* out) {
  Layout all;
  all.shape = shape;
  all.format = format;
  all.width = shape.gated ? kPanel / 2 : kPanel;
  int64_t ignored = 0;
  // Twice the largest panels at four bytes a number: more than all that follows.
  if (!product({shape.hidden + 2 * kPanel, shape.intermediate + 2 * kPanel, 64}, &ignored))
    return false;
  all.up_panels = (shape.intermediate + all.width - 1) / all.width;
  all.down_panels = (shape.hidden + kPanel - 1) / kPanel;
  all.down_first = all.up_panel(all.up_panels);
  all.bias_first = all.down_panel(all.down_panels);
  all.bytes = shape.biased ? all.down_bias(all.down_panels) : all.bias_first;
  *out = all;
  return true;
}

}  // namespace moert::cpu::simd
