// IEEE 754 single precision: the numbers themselves.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plain.hpp"

namespace moert::quant {

class F32 final : public Plain<F32> {
 public:
  static constexpr std::string_view kScheme = "f32";
  static constexpr uint32_t kDtype = MOERT_DTYPE_F32;
  static constexpr float kLargest = 0x1.fffffep127f;
  using Element = float;
  static float decode(Element bits) { return bits; }
  static Element encode(float value) { return value; }

  static constexpr moert_kv_t kCaps[] = {{"schemes", "f32"}};
  static constexpr FeatureInfo kFeature = {"quant.f32", MOERT_RANK_GOOD, 0, kCaps, 1};
  using Plain::decode;
  using Plain::encode;
  using Plain::Plain;
};

}  // namespace moert::quant
