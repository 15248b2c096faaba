// SPDX-License-Identifier: Apache-2.0
#include "fp4_weight.hpp"

#include <cmath>

namespace moert::conformance {

Fp4Weight::Fp4Weight(std::string name, int64_t row_count, int64_t groups)
    : scheme(std::move(name)),
      group(is_mx(scheme) ? 32 : 16),
      rows(row_count),
      cols(groups * group),
      codes(static_cast<size_t>(rows * cols / 2)),
      scales(static_cast<size_t>(rows * groups), is_mx(scheme) ? 127 : 0x38),
      view(codes.data(), MOERT_DTYPE_F4_E2M1, {rows, cols}),
      scale(scales.data(), is_mx(scheme) ? MOERT_DTYPE_F8_E8M0 : MOERT_DTYPE_F8_E4M3FN,
            {rows, groups}),
      second(static_cast<void*>(&global), MOERT_DTYPE_F32, {}) {
  quant.struct_size = sizeof quant;
  quant.scheme = scheme.c_str();
  quant.layout = "canonical";
  quant.scale = scale;
  if (!is_mx(scheme)) quant.scale2 = second;
  view.set_quant(&quant);
}

double Fp4Weight::scale_of(int64_t row, int64_t col) const {
  const int byte = scales[static_cast<size_t>(row * (cols / group) + col / group)];
  if (is_mx(scheme)) return std::ldexp(1.0, byte - 127);
  const int exponent = byte >> 3, fraction = byte & 7;
  return exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
}

void Fp4Weight::draw(Random& random) {
  for (auto& byte : codes) byte = static_cast<unsigned char>(random.below(256));
  for (auto& byte : scales)
    byte = static_cast<unsigned char>(is_mx(scheme) ? 100 + random.below(50) : random.below(0x7f));
}

}  // namespace moert::conformance
