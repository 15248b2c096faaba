// What tensors beside a weight are called.
// SPDX-License-Identifier: Apache-2.0
#include <moert/abi/quant_method.h>

#include "unit/weights/support.hpp"
#include "weights/companions.hpp"

namespace moert::weights {
namespace {

// All weights that are tried, the likeliest first, as "name/param" and how it is spelled.
std::vector<std::string> tried(const std::string& name) {
  constexpr const char* kSpellings[] = {"", " packed", " words"};
  std::vector<std::string> list;
  for_each_base(name, [&](const BaseName& base) {
    list.push_back(base.name + "/" + param_text(base.param) +
                   kSpellings[static_cast<size_t>(base.spelling)]);
    return false;
  });
  return list;
}

struct NameCase {
  const char* name;
  std::vector<std::string> bases;  // the first ones
};
void PrintTo(const NameCase& tested, std::ostream* out) { *out << tested.name; }

class CompanionNames : public ::testing::TestWithParam<NameCase> {};

TEST_P(CompanionNames, LeadToTheirWeight) {
  std::vector<std::string> found = tried(GetParam().name);
  ASSERT_GE(found.size(), GetParam().bases.size());
  if (!GetParam().bases.empty()) found.resize(GetParam().bases.size());
  EXPECT_EQ(found, GetParam().bases);
}

INSTANTIATE_TEST_SUITE_P(
    Companions, CompanionNames,
    ::testing::Values(
        NameCase{"e.0.up.weight_scale_inv", {"e.0.up.weight/scale", "e.0.up/scale"}},
        NameCase{"e.0.up.weight_scale", {"e.0.up.weight/scale", "e.0.up/scale"}},
        NameCase{"e.0.w1.scale", {"e.0.w1.weight/scale", "e.0.w1/scale"}},
        NameCase{"e.0.up.scales", {"e.0.up.weight/scale"}},
        NameCase{"e.0.up.qweight", {"e.0.up.weight/weight words"}},
        NameCase{"e.0.up.qzeros", {"e.0.up.weight/zero point"}},
        NameCase{"e.0.up.g_idx", {"e.0.up.weight/group index"}},
        NameCase{"e.0.up.weight_packed", {"e.0.up.weight/weight packed"}},
        NameCase{"e.0.up.weight_shape", {"e.0.up.weight/shape"}},
        NameCase{"e.0.up.weight_zero_point", {"e.0.up.weight/zero point"}},
        NameCase{"e.0.up.weight_g_idx", {"e.0.up.weight/group index"}},
        NameCase{"e.0.up.weight_scale_2", {"e.0.up.weight/second scale"}},
        NameCase{"e.0.up.weight_global_scale", {"e.0.up.weight/second scale"}},
        NameCase{"e.0.up.input_scale", {"e.0.up.weight/input scale"}},
        NameCase{"e.0.up.input_global_scale", {"e.0.up.weight/input scale"}},
        NameCase{"e.gate_up_proj_scale_inv", {"e.gate_up_proj/scale"}},
        NameCase{"e.gate_up_proj_scale", {"e.gate_up_proj/scale", "e.gate_up_proj_blocks/scale"}},
        NameCase{"e.gate_up_proj_scales", {"e.gate_up_proj/scale", "e.gate_up_proj_blocks/scale"}},
        NameCase{"e.gate_up_proj_weight_scale", {"e.gate_up_proj/scale"}},
        NameCase{"e.gate_up_proj_weight_scale_2", {"e.gate_up_proj/second scale"}},
        NameCase{"e.gate_up_proj_input_scale", {"e.gate_up_proj/input scale"}},
        NameCase{"e.gate_up_proj_global_scale", {"e.gate_up_proj/second scale"}},
        NameCase{"e.gate_up_proj_packed", {"e.gate_up_proj/weight packed"}},
        NameCase{"e.0.up.weight", {}}, NameCase{"scale", {}}, NameCase{"", {}},
        NameCase{"e.0.up.bias", {}}, NameCase{"e.0.up.weight_scale_invx", {}}),
    [](const auto& tested) { return "n" + std::to_string(tested.index); });

TEST(Companions, TheFirstThatIsTakenEndsTheSearch) {
  int calls = 0;
  EXPECT_TRUE(for_each_base("a.weight_scale", [&](const BaseName&) { return ++calls == 1; }));
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(for_each_base("a.weight", [&](const BaseName&) { return true; }));
}

// What a missing one would be called.
TEST(Companions, AMissingOneIsCalledAsItsNeighboursAre) {
  struct Case {
    const char* weight;
    uint32_t param;
    const char *beside, *name;
  };
  const Case cases[] = {
      {"e.0.up.weight", MOERT_PARAM_SCALE, "e.1.up.weight_scale_inv", "e.0.up.weight_scale_inv"},
      {"e.0.w1.weight", MOERT_PARAM_SCALE, "e.1.w1.scale", "e.0.w1.scale"},
      {"e.0.up.weight", MOERT_PARAM_SCALE, "", "e.0.up.weight_scale"},
      {"e.0.up.weight", MOERT_PARAM_SCALE2, "", "e.0.up.weight_scale_2"},
      {"e.0.up.weight", MOERT_PARAM_SCALE2, "e.1.up.weight_global_scale",
       "e.0.up.weight_global_scale"},
      {"e.0.up.weight_packed", MOERT_PARAM_SCALE, "", "e.0.up.weight_scale"},
      {"e.0.up.weight", MOERT_PARAM_INPUT_SCALE, "", "e.0.up.input_scale"},
      {"e.0.up.weight", MOERT_PARAM_INPUT_SCALE, "e.1.up.input_global_scale",
       "e.0.up.input_global_scale"},
      {"e.0.up.qweight", MOERT_PARAM_SCALE, "", "e.0.up.scales"},
      {"e.0.up.qweight", MOERT_PARAM_ZERO_POINT, "", "e.0.up.qzeros"},
      {"e.gate_up_proj", MOERT_PARAM_SCALE, "", "e.gate_up_proj_scale"},
      {"e.gate_up_proj_blocks", MOERT_PARAM_SCALE, "", "e.gate_up_proj_scales"},
      {"e.gate_up_proj", MOERT_PARAM_INPUT_SCALE, "", "e.gate_up_proj_input_scale"}};
  for (const auto& [weight, param, beside, name] : cases)
    EXPECT_EQ(companion_name(weight, param, beside), name) << weight << " beside " << beside;
}

}  // namespace
}  // namespace moert::weights
