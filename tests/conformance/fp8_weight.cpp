// SPDX-License-Identifier: Apache-2.0
#include "fp8_weight.hpp"

#include <cstdio>

namespace moert::conformance {
namespace {

constexpr Fp8Element kFp8Elements[] = {{"e4m3fn", MOERT_DTYPE_F8_E4M3FN, 4, 7, false, false},
                                       {"e4m3fnuz", MOERT_DTYPE_F8_E4M3FNUZ, 4, 8, false, true},
                                       {"e5m2", MOERT_DTYPE_F8_E5M2, 5, 15, true, false}};

}  // namespace

double Fp8Format::value(uint32_t code) const {
  const double sign = code >= 0x80 ? -1 : 1;
  const auto magnitude = static_cast<int>(code & 0x7fu);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  if (nan_is_negative_zero && code == 0x80) return nan;
  if (!nan_is_negative_zero && !has_infinity && magnitude == 0x7f) return nan;
  if (has_infinity && magnitude >= 0x7c) return magnitude == 0x7c ? sign * HUGE_VAL : nan;
  const int exponent = magnitude >> fraction_bits();
  const int fraction = magnitude & ((1 << fraction_bits()) - 1);
  const int whole = exponent == 0 ? fraction : fraction + (1 << fraction_bits());
  return sign * std::ldexp(whole, std::max(exponent, 1) - bias - fraction_bits());
}

Fp8Format format_of(const std::string& scheme) {
  Fp8Format f{};
  const size_t first = scheme.find('.'), second = scheme.find('.', first + 1);
  if (scheme.substr(0, 4) != "fp8_" || second == std::string::npos) return f;
  const std::string element = scheme.substr(4, first - 4);
  const std::string blocks = scheme.substr(first + 1, second - first - 1);
  const std::string scale = scheme.substr(second + 1);
  for (const Fp8Element& each : kFp8Elements)
    if (element == each.name) static_cast<Fp8Element&>(f) = each;
  for (const uint32_t dtype :
       {MOERT_DTYPE_F32, MOERT_DTYPE_BF16, MOERT_DTYPE_F16, MOERT_DTYPE_F8_E8M0})
    if (scale == dtype_name(dtype) || "f8_" + scale == dtype_name(dtype)) f.scale_dtype = dtype;
  long long down = 0, right = 0;
  if (blocks == "channel") {
    f.block_rows = 1;
  } else if (std::sscanf(blocks.c_str(), "block%lldx%lld", &down, &right) == 2) {
    f.block_rows = down;
    f.block_cols = right;
  } else if (blocks != "tensor") {
    f.dtype = 0;
  }
  return f;
}

void Fp8Weight::draw(Random& random) {
  Bytes codes(static_cast<size_t>(rows * cols));
  for (auto& code : codes) code = static_cast<unsigned char>(random.below(256));
  codes_.buffer().write(codes);
  const auto count = static_cast<size_t>(element_count(*scales_.get()));
  if (f.scale_dtype == MOERT_DTYPE_F8_E8M0) {
    Bytes scales(count);
    for (auto& scale : scales) scale = static_cast<unsigned char>(100 + random.below(50));
    return scales_.buffer().write(scales);
  }
  std::vector<double> scales(count);
  for (double& scale : scales)
    scale = std::ldexp(random.uniform() + 1.5, static_cast<int>(random.below(20)) - 10);
  scales_.buffer().write(rounded(f.scale_dtype, scales).bytes);
}

double Fp8Weight::scale(int64_t row, int64_t col) {
  const auto index =
      static_cast<size_t>(f.block_of(row, true) * scales_.get()->shape[1] + f.block_of(col, false));
  const Bytes bytes = scales_.read();
  if (f.scale_dtype == MOERT_DTYPE_F8_E8M0) return std::ldexp(1.0, bytes[index] - 127);
  return decoded(f.scale_dtype, bytes)[index];
}

}  // namespace moert::conformance
