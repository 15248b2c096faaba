// bfloat16: the upper half of a single-precision number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plain.hpp"

namespace moert::quant {

class BF16 final : public Plain<BF16> {
 public:
  static constexpr std::string_view kScheme = "bf16";
  static constexpr uint32_t kDtype = MOERT_DTYPE_BF16;
  static constexpr float kLargest = 0x1.fep127f;
  using Element = uint16_t;
  static float decode(Element bits) { return bf16_to_f32(bits); }
  static Element encode(float value) { return f32_to_bf16(value); }

  static constexpr moert_kv_t kCaps[] = {{"schemes", "bf16"}};
  static constexpr FeatureInfo kFeature = {"quant.bf16", MOERT_RANK_GOOD, 0, kCaps, 1};
  using Plain::decode;
  using Plain::encode;
  using Plain::Plain;
};

}  // namespace moert::quant
