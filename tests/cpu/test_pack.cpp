// mxfp4 on its way into panels: scales at both ends are kept, one that is no number is refused where it stands.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <moert/sdk/error.hpp>
#include <moert/sdk/tensor.hpp>

#include "../../plugins/cpu/simd/pack_mxfp4.hpp"
#include "cpu/products.hpp"

namespace moert::cpu::testing {
namespace {

using namespace simd;

constexpr int64_t kRows = 70, kCols = 96, kGroups = kCols / kGroup;

struct Weight {
  Weight() : codes(kRows * kCols / 2), scales(kRows * kGroups, 127) {
    std::mt19937_64 random(9);
    for (unsigned char& code : codes) code = static_cast<unsigned char>(random());
  }
  std::vector<unsigned char> packed() {
    TensorView scale(static_cast<const void*>(scales.data()), MOERT_DTYPE_F8_E8M0,
                     {kRows, kGroups});
    TensorView weight(codes.data(), MOERT_DTYPE_F4_E2M1, {kRows, kCols});
    moert_quant_view_t view{};
    view.struct_size = sizeof view;
    view.scale = scale;
    weight.set_quant(&view);
    std::vector<unsigned char> panels(static_cast<size_t>(2 * panel_bytes(Storage::mxfp4, kCols)));
    pack_mxfp4({weight.get(), 0, kPanel, panels.data()}, "expert 3's up");
    return panels;
  }
  uint32_t code(int64_t row, int64_t col) const {
    return codes[static_cast<size_t>((row * kCols + col) / 2)] >> (col % 2 * 4) & 15u;
  }
  std::vector<unsigned char> codes, scales;
};

TEST(PackMxfp4, KeepsEveryScaleThatIsANumber) {
  Weight weight;
  for (size_t i = 0; i < weight.scales.size(); ++i)
    weight.scales[i] = static_cast<unsigned char>(i % 3 == 0 ? 0 : i % 3 == 1 ? 254 : i);
  const std::vector<unsigned char> got = weight.packed();
  for (int64_t panel = 0; panel < 2; ++panel) {
    Panel want({Storage::mxfp4, 0, Scales::none}, kCols);
    for (int64_t c = 0; c < kPanel && panel * kPanel + c < kRows; ++c)
      for (int64_t d = 0; d < kCols; ++d) {
        const int64_t row = panel * kPanel + c;
        want.put_scale(d / kGroup, c,
                       weight.scales[static_cast<size_t>(row * kGroups + d / kGroup)]);
        want.put_code(d, c, weight.code(row, d));
      }
    EXPECT_EQ(std::memcmp(&got[static_cast<size_t>(panel) * want.bytes.bytes()], want.bytes.data(),
                          want.bytes.bytes()),
              0)
        << "panel " << panel;
  }
}

TEST(PackMxfp4, RefusesAScaleThatIsNone) {
  for (const int64_t place : {int64_t{0}, int64_t{100}, kRows * kGroups - 1}) {
    Weight weight;
    weight.scales[static_cast<size_t>(place)] = 255;
    try {
      weight.packed();
      ADD_FAILURE() << "scale " << place << " was taken";
    } catch (const PluginError& error) {
      EXPECT_EQ(error.code(), MOERT_DATA_LOSS);
      EXPECT_EQ(std::string(error.what()),
                "expert 3's up: the scale of row " + std::to_string(place / kGroups) + ", column " +
                    std::to_string(place % kGroups * kGroup) + " is NaN");
    }
  }
}

}  // namespace
}  // namespace moert::cpu::testing
