// Four-bit floats with scales by their definition, and weights of them: what quant methods are judged by.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/quant_method.h>
#include <moert/sdk/tensor.hpp>

#include <string>

#include "buffer.hpp"
#include "numbers.hpp"

namespace moert::conformance {

inline bool is_mx(const std::string& scheme) { return scheme == "mxfp4.g32.e8m0"; }

// Value of a nibble.
inline double e2m1_value(uint32_t code) {
  constexpr double kMagnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return code >= 8 ? -kMagnitudes[code - 8] : kMagnitudes[code];
}

// A weight of whole groups. All codes lie densely, row by row, the first in the low nibble.
struct Fp4Weight {
  Fp4Weight(std::string name, int64_t row_count, int64_t groups);
  Fp4Weight(const Fp4Weight&) = delete;
  Fp4Weight& operator=(const Fp4Weight&) = delete;

  uint32_t code(int64_t index) const {
    const uint32_t byte = codes[static_cast<size_t>(index / 2)];
    return index % 2 == 0 ? byte & 15u : byte >> 4;
  }
  double scale_of(int64_t row, int64_t col) const;
  // The number of [row, col], whose code is `code`.
  float number(uint32_t code, int64_t row, int64_t col) const {
    const auto value = static_cast<float>(e2m1_value(code) * scale_of(row, col));
    return is_mx(scheme) ? value : value * global;
  }
  void draw(Random& random);

  const std::string scheme;
  const int64_t group, rows, cols;
  Bytes codes, scales;
  float global = 0.37f;
  TensorView view, scale, second;
  moert_quant_view_t quant{};
};

}  // namespace moert::conformance
