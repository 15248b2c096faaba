// Name rules: what a pattern takes, and which patterns are refused.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <moert/abi/moe_runner.h>
#include <moert/abi/router.h>

#include "unit/weights/support.hpp"
#include "weights/rules.hpp"

namespace moert::weights {
namespace {

using spec::Target;
using spec::TensorRule;

struct GlobCase {
  const char *name, *pattern, *text;
  bool fits;
};
std::ostream& operator<<(std::ostream& out, const GlobCase& c) { return out << c.name; }

class Globs : public ::testing::TestWithParam<GlobCase> {};

TEST_P(Globs, Fit) { EXPECT_EQ(glob_fits(GetParam().pattern, GetParam().text), GetParam().fits); }

INSTANTIATE_TEST_SUITE_P(
    Patterns, Globs,
    ::testing::Values(GlobCase{"equal", "a.b", "a.b", true},
                      GlobCase{"prefix_only", "a", "a.b", false},
                      GlobCase{"longer_pattern", "a.b", "a", false},
                      GlobCase{"star_all", "*", "", true},
                      GlobCase{"star_end", "a.*", "a.b.c", true},
                      GlobCase{"star_needs_its_dot", "a.*", "a", false},
                      GlobCase{"star_middle", "a.*.c", "a.b.b.c", true},
                      GlobCase{"star_backs_up", "*ab", "aab", true},
                      GlobCase{"two_stars", "*.x.*", "a.x.y.x.b", true},
                      GlobCase{"two_stars_no", "*.x.*.z", "a.x.y.x.b", false},
                      GlobCase{"number", "l.{layer}.*", "l.12.a", true},
                      GlobCase{"leading_zero", "l.{layer}.*", "l.012.a", false},
                      GlobCase{"no_number", "l.{layer}.*", "l..a", false},
                      GlobCase{"number_after_star", "*.{expert}.w", "a.b.7.w", true},
                      GlobCase{"number_at_end", "*.{expert}", "a.b.7", true},
                      GlobCase{"empty_text", "{layer}", "", false}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Globs, ManyStarsAgainstALongNameEnd) {
  std::string pattern, text(20000, 'a');
  for (int i = 0; i < 50; ++i) pattern += "*a";
  EXPECT_TRUE(glob_fits(pattern, text));
  EXPECT_FALSE(glob_fits(pattern + "b", text));
}

TensorRule rule(std::string pattern) {
  TensorRule result;
  result.target = Target::expert;
  result.pattern = std::move(pattern);
  result.parts = {MOERT_PART_UP};
  return result;
}

struct RuleName {
  const char *name, *pattern, *text;
  int64_t layer, expert;  // -1, -1: does not fit
};
std::ostream& operator<<(std::ostream& out, const RuleName& c) { return out << c.name; }

class RuleNames : public ::testing::TestWithParam<RuleName> {};

TEST_P(RuleNames, NumbersAreFound) {
  spec::Tensors tensors;
  tensors.experts = {{"one", {rule(GetParam().pattern)}}};
  const Rules rules(tensors);
  NameShape shape;
  const std::string text = GetParam().text;
  shape_of(text, &shape);
  std::optional<Numbers> numbers;
  for (const uint32_t i : rules.candidates(shape)) numbers = rules.fit(i, text, shape);
  EXPECT_EQ(numbers ? numbers->layer : -1, GetParam().layer);
  EXPECT_EQ(numbers ? numbers->expert : -1, GetParam().expert);
  if (numbers) {
    EXPECT_EQ(expand(*rules.at(0).rule, numbers->layer, numbers->expert), text);
  }
}

constexpr const char* kW1 = "l.{layer}.e.{expert}.w1";
INSTANTIATE_TEST_SUITE_P(
    Names, RuleNames,
    ::testing::Values(RuleName{"fits", kW1, "l.3.e.17.w1", 3, 17},
                      RuleName{"zero", kW1, "l.0.e.0.w1", 0, 0},
                      RuleName{"other_literal_digits", kW1, "l.3.e.17.w2", -1, -1},
                      RuleName{"leading_zero", kW1, "l.3.e.07.w1", -1, -1},
                      RuleName{"sign", kW1, "l.3.e.-7.w1", -1, -1},
                      RuleName{"no_digits", kW1, "l.3.e..w1", -1, -1},
                      RuleName{"eighteen_digits", kW1, "l.3.e.999999999999999999.w1", 3,
                               999999999999999999},
                      RuleName{"nineteen_digits", kW1, "l.3.e.9999999999999999999.w1", -1, -1},
                      RuleName{"suffix", kW1, "l.3.e.17.w1.x", -1, -1},
                      RuleName{"prefix", kW1, "x.l.3.e.17.w1", -1, -1},
                      RuleName{"placeholder_spelt_out", kW1, "l.{layer}.e.{expert}.w1", -1, -1},
                      RuleName{"hash_sign", "a#.{layer}.{expert}", "a7.3.#", -1, -1},
                      RuleName{"inside_a_word", "h{layer}x{expert}", "h3x4", 3, 4},
                      RuleName{"twice_the_same", "{layer}.{expert}.{layer}", "3.4.3", 3, 4},
                      RuleName{"twice_different", "{layer}.{expert}.{layer}", "3.4.5", -1, -1}),
    [](const auto& test) { return std::string(test.param.name); });

struct BadRule {
  const char* name;
  TensorRule rule;
  const char* problem;
};
std::ostream& operator<<(std::ostream& out, const BadRule& c) { return out << c.name; }

class BadRules : public ::testing::TestWithParam<BadRule> {};

TEST_P(BadRules, AreRefused) {
  spec::Tensors tensors;
  if (GetParam().rule.target == Target::expert)
    tensors.experts = {{"one", {GetParam().rule}}};
  else
    tensors.others = {GetParam().rule};
  const auto error = error_of([&] { Rules rules(tensors); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->fault(), Fault::usage);
  EXPECT_NE(error->problem().find(GetParam().problem), std::string::npos) << error->what();
  EXPECT_NE(error->problem().find(GetParam().rule.pattern), std::string::npos) << error->what();
}

template <class Change>
TensorRule changed(Change change) {
  TensorRule result = rule(kW1);
  change(result);
  return result;
}

// Of the layer's own tensors.
template <class Change>
TensorRule layer_rule(Change change) {
  TensorRule result = rule("l.{layer}.w");
  result.target = Target::layer;
  result.parts = {MOERT_PART_LATENT_DOWN};
  change(result);
  return result;
}

INSTANTIATE_TEST_SUITE_P(
    LayerRules, BadRules,
    ::testing::Values(
        BadRule{"layer_part_3",
                layer_rule([](TensorRule& r) { r.parts = {MOERT_PART_LATENT_DOWN - 1}; }),
                "one part of the layer"},
        BadRule{"layer_part_8",
                layer_rule([](TensorRule& r) { r.parts = {MOERT_PART_OUTPUT_BIAS + 1}; }),
                "one part of the layer"},
        BadRule{"layer_two_parts", layer_rule([](TensorRule& r) {
                  r.parts = {MOERT_PART_LATENT_DOWN, MOERT_PART_LATENT_UP};
                }),
                "one part of the layer"},
        BadRule{"layer_no_part", layer_rule([](TensorRule& r) { r.parts = {}; }), "feeds no part"},
        BadRule{"layer_stacked", layer_rule([](TensorRule& r) { r.stacked = true; }),
                "one part of the layer"},
        BadRule{"layer_without_number", layer_rule([](TensorRule& r) { r.pattern = "w"; }),
                "has no {layer}"},
        BadRule{"layer_of_an_expert", layer_rule([](TensorRule& r) { r.pattern = kW1; }),
                "not of one expert"},
        BadRule{"layer_star", layer_rule([](TensorRule& r) { r.pattern = "l.{layer}.*"; }),
                "has a '*'"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(RulesOfALayer, AreTaken) {
  for (const uint32_t part : {MOERT_PART_LATENT_DOWN, MOERT_PART_LATENT_UP, MOERT_PART_EXPERT_NORM,
                              MOERT_PART_OUTPUT_BIAS}) {
    spec::Tensors tensors;
    tensors.others = {layer_rule([&](TensorRule& r) { r.parts = {part}; })};
    EXPECT_NO_THROW(Rules{tensors}) << part;
  }
}

TEST(RulesOfALayer, StandInNoLayout) {
  spec::Tensors tensors;
  tensors.experts = {{"one", {layer_rule([](TensorRule&) {})}}};
  const auto error = error_of([&] { Rules rules(tensors); });
  ASSERT_TRUE(error);
  EXPECT_NE(error->problem().find("feeds no expert"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, BadRules,
    ::testing::Values(
        BadRule{"no_layer", rule("e.{expert}.w"), "has no {layer}"},
        BadRule{"no_expert", rule("l.{layer}.w"), "has no {expert}"},
        BadRule{"stacked_expert", changed([](TensorRule& r) { r.stacked = true; }), "has {expert}"},
        BadRule{"star", rule("l.{layer}.*.{expert}"), "has a '*'"},
        BadRule{"other_brace", rule("l.{layer}.{expert}.{x}"), "has a brace"},
        BadRule{"open_brace", rule("l.{layer}.{expert}.{"), "has a brace"},
        BadRule{"adjacent", rule("l.{layer}{expert}"), "without text between"},
        BadRule{"adjacent_digits", rule("l1{layer}.{expert}"), "without text between"},
        BadRule{"no_part", changed([](TensorRule& r) { r.parts = {}; }), "feeds no part"},
        BadRule{"part_3", changed([](TensorRule& r) { r.parts = {3}; }),
                "one part, or gate and up"},
        BadRule{"gate_and_down", changed([](TensorRule& r) { r.parts = {0, 2}; }), "gate and up"},
        BadRule{"up_twice", changed([](TensorRule& r) { r.parts = {1, 1}; }), "gate and up"},
        BadRule{"three_parts", changed([](TensorRule& r) { r.parts = {0, 1, 2}; }), "gate and up"},
        BadRule{"role_2", changed([](TensorRule& r) { r.role = 2; }),
                "neither a weight nor a bias"},
        BadRule{"router_part_6", changed([](TensorRule& r) {
                  r.target = Target::router;
                  r.pattern = "l.{layer}.g";
                  r.parts = {6};
                }),
                "one part of the router"},
        BadRule{"shared_stacked", changed([](TensorRule& r) {
                  r.target = Target::shared;
                  r.pattern = "l.{layer}.g";
                  r.stacked = true;
                }),
                "is stacked"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(RulesTwice, OnePatternInOneLayout) {
  spec::Tensors tensors;
  tensors.experts = {{"a", {rule(kW1)}}, {"b", {rule(kW1)}}};
  EXPECT_NO_THROW(Rules{tensors}) << "two layouts may share a name";
  tensors.experts[0].rules.push_back(rule(kW1));
  const auto error = error_of([&] { Rules rules(tensors); });
  ASSERT_TRUE(error);
  EXPECT_NE(error->problem().find("stands twice"), std::string::npos);
}

}  // namespace
}  // namespace moert::weights
