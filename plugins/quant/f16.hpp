// IEEE 754 half precision, subnormals included.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plain.hpp"

namespace moert::quant {

class F16 final : public Plain<F16> {
 public:
  static constexpr std::string_view kScheme = "f16";
  static constexpr uint32_t kDtype = MOERT_DTYPE_F16;
  static constexpr float kLargest = 65504.0f;
  using Element = uint16_t;
  static float decode(Element bits) { return f16_to_f32(bits); }
  static Element encode(float value) { return f32_to_f16(value); }

  static constexpr moert_kv_t kCaps[] = {{"schemes", "f16"}};
  static constexpr FeatureInfo kFeature = {"quant.f16", MOERT_RANK_GOOD, 0, kCaps, 1};
  using Plain::decode;
  using Plain::encode;
  using Plain::Plain;
};

}  // namespace moert::quant
