// Where the scales of one part of a weight lie in their tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "weights/plan.hpp"

namespace moert::weights {

// A strided window in elements of a tensor.
struct Window {
  std::vector<int64_t> shape, strides;
  int64_t first = 0;
};

// A weight's tensor as the scales see it: one expert's extent, its halves together, and how many experts
// and halves the tensor holds.
struct ScaleGrid {
  const spec::TensorRule* rule = nullptr;
  int64_t out = 0, in = 0, experts = 1;
  BlockSize block;
};

// The window of one expert's half, [down, right]. False, with `problem`, if a tensor of that shape holds no
// scales of such blocks, or blocks lie across the border of experts or halves.
bool scale_window(const std::vector<int64_t>& shape, const ScaleGrid& grid, int64_t expert,
                  int64_t half, Window* window, std::string* problem);

}  // namespace moert::weights
