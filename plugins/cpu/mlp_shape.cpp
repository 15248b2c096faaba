// The sizes of one MLP: an expert, or the shared ones.
// SPDX-License-Identifier: Apache-2.0
#include "mlp_shape.hpp"

#include "matrix.hpp"

namespace moert::cpu {

bool MlpShape::count(int64_t* floats) const {
  int64_t matrices = 0;
  if (!product({gated ? 3 : 2, hidden, intermediate}, &matrices)) return false;
  const int64_t biases = biased ? (gated ? 2 : 1) * intermediate + hidden : 0;
  *floats = matrices + biases;
  return product({*floats, static_cast<int64_t>(sizeof(float))}, &matrices);
}

}  // namespace moert::cpu
