// The comparator: what passes, what is named as the worst, and that NaN never passes.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/compare.hpp"

namespace {

using namespace moert::runtime;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Two tokens, two slots, three columns, all equal.
struct Fixture {
  Routing routing{2, 2, {1, 0, 2, 3}, {0.6f, 0.4f, 0.7f, 0.3f}, {}};
  std::vector<float> output{1, 2, 2, 0, 3, 4};
  Golden golden{{1, 0, 2, 3}, {0.6f, 0.4f, 0.7f, 0.3f}, {1, 2, 2, 0, 3, 4}};
  Comparison compare(double output_tolerance = 1e-5, double weight_tolerance = 1e-5) const {
    return compare_layer(routing, output, 3, golden, output_tolerance, weight_tolerance);
  }
};

TEST(Compare, EqualPasses) {
  const Comparison c = Fixture().compare();
  EXPECT_TRUE(c.passed);
  EXPECT_EQ(c.output.error, 0);
  EXPECT_EQ(c.wrong_ids, 0);
}

TEST(Compare, SlotOrderDoesNotMatterButWeightsFollowTheirExpert) {
  Fixture f;
  f.routing.ids = {0, 1, 2, 3};
  f.routing.weights = {0.4f, 0.6f, 0.7f, 0.3f};
  EXPECT_TRUE(f.compare().passed);
  f.routing.weights = {0.6f, 0.4f, 0.7f, 0.3f};
  const Comparison c = f.compare();
  EXPECT_FALSE(c.passed);
  EXPECT_EQ(c.wrong_ids, 0);
  EXPECT_EQ(c.weight.token, 0);
}

TEST(Compare, ErrorIsRelativeToTheRowsNormAndNamesTheElement) {
  Fixture f;
  f.output[5] = 4.5f;  // the row's norm is 5: error 0.1
  const Comparison c = f.compare();
  EXPECT_FALSE(c.passed);
  EXPECT_EQ(c.output.token, 1);
  EXPECT_EQ(c.output.column, 2);
  EXPECT_DOUBLE_EQ(c.output.got, 4.5);
  EXPECT_DOUBLE_EQ(c.output.want, 4);
  EXPECT_NEAR(c.output.error, 0.1, 1e-12);
  EXPECT_TRUE(f.compare(0.11).passed);
}

TEST(Compare, WrongIdsAreCountedByRowAndTheFirstIsShown) {
  Fixture f;
  f.routing.ids = {1, 5, 2, 7};
  const Comparison c = f.compare();
  EXPECT_FALSE(c.passed);
  EXPECT_EQ(c.wrong_ids, 2);
  EXPECT_EQ(c.first_wrong_ids, "token 0: got [1, 5], want [1, 0]");
}

struct NanCase {
  const char* name;
  void (*spoil)(Fixture&);
};

class CompareNan : public ::testing::TestWithParam<NanCase> {};

TEST_P(CompareNan, NeverPasses) {
  Fixture f;
  GetParam().spoil(f);
  EXPECT_FALSE(f.compare(1e30, 1e30).passed);
}

INSTANTIATE_TEST_SUITE_P(
    Places, CompareNan,
    testing::Values(NanCase{"output_first", [](Fixture& f) { f.output[0] = kNan; }},
                    NanCase{"output_last", [](Fixture& f) { f.output[5] = kNan; }},
                    NanCase{"golden", [](Fixture& f) { f.golden.output[1] = kNan; }},
                    NanCase{"weight", [](Fixture& f) { f.routing.weights[2] = kNan; }},
                    NanCase{"golden_weight", [](Fixture& f) { f.golden.weights[0] = kNan; }},
                    NanCase{"infinite", [](Fixture& f) { f.output[3] = HUGE_VALF; }}),
    [](const auto& it) { return std::string(it.param.name); });

TEST(Compare, AnOutputWhereZeroIsWantedFails) {
  Fixture f;
  f.golden.output = {0, 0, 0, 0, 3, 4};
  f.output = {0, 0, 1e-30f, 0, 3, 4};
  EXPECT_FALSE(f.compare().passed);
  f.output = {0, 0, 0, 0, 3, 4};
  EXPECT_TRUE(f.compare().passed);
}

TEST(Compare, DerivedTolerancesGrowWithRoundoffAndK) {
  EXPECT_DOUBLE_EQ(derived_output_tolerance(MOERT_DTYPE_F32, 8), 1e-5);
  EXPECT_NEAR(derived_output_tolerance(MOERT_DTYPE_BF16, 3), 2 * 0x1p-8 * 3, 1e-15);
  EXPECT_LT(derived_output_tolerance(MOERT_DTYPE_F16, 3),
            derived_output_tolerance(MOERT_DTYPE_BF16, 3));
}

}  // namespace
