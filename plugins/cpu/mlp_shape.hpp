// The sizes of one MLP: an expert, or the shared ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace moert::cpu {

struct MlpShape {
  int64_t hidden = 0;
  int64_t intermediate = 0;
  bool gated = true;
  bool biased = false;

  // Numbers that one MLP has; false if they do not fit 62 bits.
  bool count(int64_t* floats) const;
};

}  // namespace moert::cpu
