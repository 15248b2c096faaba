// Lists of modules: names, runs of words, globs, expressions, and lists that mean harm.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "unit/weights/support.hpp"
#include "weights/targets.hpp"

namespace moert::weights {
namespace {

struct TargetCase {
  const char* name;
  std::vector<std::string> targets;
  std::vector<std::string> fit, other;
};
void PrintTo(const TargetCase& tested, std::ostream* out) { *out << tested.name; }

class TargetLists : public ::testing::TestWithParam<TargetCase> {};

TEST_P(TargetLists, FitWhatTheyMean) {
  const Targets targets(GetParam().targets, "config.json");
  for (const std::string& module : GetParam().fit) EXPECT_TRUE(targets.fit(module)) << module;
  for (const std::string& module : GetParam().other) EXPECT_FALSE(targets.fit(module)) << module;
}

INSTANTIATE_TEST_SUITE_P(
    Targets, TargetLists,
    ::testing::Values(
        TargetCase{"nothing", {}, {}, {"", "a", "model.layers.0"}},
        TargetCase{"empty_words", {"", ".", "..."}, {}, {"", "a", "a.b"}},
        TargetCase{
            "a_name", {"a.b"}, {"a.b", "a.b.c", "x.a.b", "x.a.b.c"}, {"a", "a.bc", "xa.b", "b.a"}},
        TargetCase{"a_word", {"mlp"}, {"mlp", "model.mlp.gate"}, {"mlps", "model.mlp_2", "ml.p"}},
        TargetCase{"a_dot_at_the_end", {"a.b."}, {"a.b", "a.b.c"}, {"a.bc", "a"}},
        TargetCase{
            "numbers_are_words", {"layers.1"}, {"model.layers.1.mlp"}, {"model.layers.11.mlp"}},
        TargetCase{
            "a_glob",
            {"model.layers.*.mlp.gate"},
            {"model.layers.0.mlp.gate", "model.layers.0.mlp.gate.x", "model.layers.a.b.mlp.gate"},
            {"x.model.layers.0.mlp.gate", "model.layers.0.mlp.gate_proj", "model.layers.mlp.gate"}},
        TargetCase{
            "a_glob_at_both_ends", {"*self_attn*"}, {"model.self_attn.q", "self_attn"}, {"attn"}},
        TargetCase{"a_glob_for_all", {"*"}, {"a", "a.b"}, {}},
        TargetCase{"an_expression",
                   {"re:.*\\.mlp\\.gate$"},
                   {"model.mlp.gate", "model.mlp.gate.x"},
                   {"model.mlp.gate_proj", "mlp.gate"}},
        TargetCase{"an_expression_begins_at_the_beginning", {"re:b"}, {"b", "bc.d"}, {"a.b", "ab"}},
        TargetCase{"an_expression_of_nothing", {"re:"}, {"a", "a.b"}, {}},
        TargetCase{"no_expression_without_its_mark", {"mlp.(gate|up)"}, {}, {"mlp.gate", "mlp.up"}},
        TargetCase{"several",
                   {"lm_head", "*.gate", "re:.*[37]$"},
                   {"lm_head", "x.gate", "layers.13", "layers.17.mlp"},
                   {"layers.12"}}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(Targets, AnExpressionThatIsNoneIsNamed) {
  for (const char* bad : {"re:(", "re:[a", "re:a{2,1}", "re:*a", "re:(?P<x", "re:\\"}) {
    const auto error = error_of([&] { Targets({"fine", bad}, "config.json: here"); });
    ASSERT_TRUE(error) << bad;
    EXPECT_EQ(error->fault(), Fault::usage);
    EXPECT_NE(error->problem().find("'" + std::string(bad).substr(3) + "'"), std::string::npos)
        << error->what();
    EXPECT_EQ(error->place(), "config.json: here");
  }
}

// Either it ends soon, or it is refused soon.
TEST(Targets, AnExpressionThatBacktracksWithoutEndIsRefused) {
  const std::string module(900, 'a');
  for (const char* hostile : {"re:(a+)+$x", "re:(a*)*b", "re:(a|aa)+c", "re:(.*)*(.*)*(.*)*d"}) {
    const Targets targets({hostile}, "config.json");
    const auto begin = std::chrono::steady_clock::now();
    const auto error = error_of([&] { targets.fit(module); });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)) << hostile;
    if (!error) continue;
    EXPECT_EQ(error->fault(), Fault::usage);
    EXPECT_NE(error->problem().find("takes too long"), std::string::npos) << error->what();
    EXPECT_LT(error->problem().size(), 400u);
  }
}

TEST(Targets, NestingWithoutEndIsRefusedOrRead) {
  const std::string deep = "re:" + std::string(20000, '(') + "a" + std::string(20000, ')');
  const auto error = error_of([&] { EXPECT_TRUE(Targets({deep}, "config.json").fit("a")); });
  if (error) {
    EXPECT_EQ(error->fault(), Fault::usage);
    EXPECT_LT(error->problem().size(), 1000u);
  }
}

TEST(Targets, NamesOfAnyLengthAreLookedUpInTime) {
  std::vector<std::string> many;
  for (int i = 0; i < 100000; ++i) many.push_back("model.layers." + std::to_string(i) + ".mlp");
  many.push_back(std::string(1 << 20, 'x'));
  many.push_back("*" + std::string(1000, 'a') + "*b");
  const Targets targets(many, "config.json");
  const auto begin = std::chrono::steady_clock::now();
  std::string dots;
  for (int i = 0; i < 512; ++i) dots += "a.";
  for (int i = 0; i < 1000; ++i)
    EXPECT_TRUE(targets.fit("model.layers." + std::to_string(i * 100) + ".mlp.gate"));
  EXPECT_FALSE(targets.fit(dots));
  EXPECT_FALSE(targets.fit(std::string(1024, 'a')));
  EXPECT_FALSE(targets.fit(std::string(1 << 20, 'x'))) << "nobody's module";
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

}  // namespace
}  // namespace moert::weights
