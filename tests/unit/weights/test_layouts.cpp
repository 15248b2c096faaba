// Layouts: which element of a stored tensor each expert's part gets, and which layout it is.
// SPDX-License-Identifier: Apache-2.0
#include "unit/weights/numbered.hpp"

namespace moert::weights {
namespace {

using spec::Target;
using spec::TensorRule;

constexpr int64_t H = 5, I = 3, E = 4;
constexpr uint32_t G = MOERT_PART_GATE, U = MOERT_PART_UP, D = MOERT_PART_DOWN;

enum How : unsigned { plain = 0, flat = 1, transposed = 2, interleaved = 4, bias = 8 };

TensorRule stored(const char* name, std::vector<uint32_t> parts, unsigned how) {
  TensorRule rule = expert_rule(name, std::move(parts));
  rule.flat = (how & flat) != 0;
  rule.transposed = (how & transposed) != 0;
  rule.interleaved = (how & interleaved) != 0;
  rule.role = (how & bias) != 0 ? MOERT_ROLE_BIAS : MOERT_ROLE_WEIGHT;
  return rule;
}

struct LayoutFile {
  const char* name;
  std::vector<int64_t> shape;
};

// Where element (o, i) of an expert's part lies in its tensor, o being the output.
struct LayoutCase {
  const char* name;
  std::vector<TensorRule> rules;
  std::vector<LayoutFile> tensors;
  int64_t (*weight)(int64_t e, uint32_t part, int64_t o, int64_t i);
  int64_t (*bias)(int64_t e, uint32_t part, int64_t o) = nullptr;
};
std::ostream& operator<<(std::ostream& out, const LayoutCase& c) { return out << c.name; }

const std::vector<LayoutCase> kLayouts = {
    // DBRX: experts follow each other; w2 is [E x I, H], used transposed.
    {"flat_down_transposed",
     {stored("w1", {G}, flat), stored("v1", {U}, flat), stored("w2", {D}, flat | transposed)},
     {{"l.1.w1", {E * I, H}}, {"l.1.v1", {E * I, H}}, {"l.1.w2", {E * I, H}}},
     [](int64_t e, uint32_t part, int64_t o, int64_t i) {
       return part == D ? (e * I + i) * H + o : (e * I + o) * H + i;
     }},
    {"flat",
     {stored("w1", {G}, flat | transposed), stored("v1", {U}, flat | transposed),
      stored("w2", {D}, flat)},
     {{"l.1.w1", {E * H, I}}, {"l.1.v1", {E * H, I}}, {"l.1.w2", {E * H, I}}},
     [](int64_t e, uint32_t part, int64_t o, int64_t i) {
       return part == D ? (e * H + o) * I + i : (e * H + i) * I + o;
     }},
    {"stacked_transposed",
     {stored("in", {G, U}, transposed), stored("out", {D}, transposed),
      stored("in_bias", {G, U}, bias), stored("out_bias", {D}, bias)},
     {{"l.1.in", {E, H, 2 * I}},
      {"l.1.out", {E, I, H}},
      {"l.1.in_bias", {E, 2 * I}},
      {"l.1.out_bias", {E, H}}},
     [](int64_t e, uint32_t part, int64_t o, int64_t i) {
       return part == D ? (e * I + i) * H + o : (e * H + i) * 2 * I + part * I + o;
     },
     [](int64_t e, uint32_t part, int64_t o) {
       return part == D ? e * H + o : e * 2 * I + part * I + o;
     }},
    // gpt-oss: gate and up alternate.
    {"stacked_transposed_interleaved",
     {stored("in", {G, U}, transposed | interleaved), stored("out", {D}, transposed),
      stored("in_bias", {G, U}, interleaved | bias), stored("out_bias", {D}, bias)},
     {{"l.1.in", {E, H, 2 * I}},
      {"l.1.out", {E, I, H}},
      {"l.1.in_bias", {E, 2 * I}},
      {"l.1.out_bias", {E, H}}},
     [](int64_t e, uint32_t part, int64_t o, int64_t i) {
       return part == D ? (e * I + i) * H + o : (e * H + i) * 2 * I + 2 * o + part;
     },
     [](int64_t e, uint32_t part, int64_t o) {
       return part == D ? e * H + o : e * 2 * I + 2 * o + part;
     }},
    {"stacked_up_first",
     {stored("in", {U, G}, plain), stored("out", {D}, plain)},
     {{"l.1.in", {E, 2 * I, H}}, {"l.1.out", {E, H, I}}},
     [](int64_t e, uint32_t part, int64_t o, int64_t i) {
       return part == D ? (e * H + o) * I + i : (e * 2 * I + (part == U ? 0 : I) + o) * H + i;
     }},
    {"stacked_up_first_interleaved",
     {stored("in", {U, G}, interleaved), stored("out", {D}, plain)},
     {{"l.1.in", {E, 2 * I, H}}, {"l.1.out", {E, H, I}}},
     [](int64_t e, uint32_t part, int64_t o, int64_t i) {
       return part == D ? (e * H + o) * I + i : (e * 2 * I + 2 * o + (part == U ? 0 : 1)) * H + i;
     }},
};

class LayoutWindows : public Numbered, public ::testing::WithParamInterface<LayoutCase> {};

TEST_P(LayoutWindows, AreIndexArithmetic) {
  const LayoutCase& c = GetParam();
  tensors.experts = {{"stored", c.rules}};
  add_rule(Target::router, "l.{layer}.router", MOERT_ROUTER_GATE_WEIGHT);
  number("l.1.router", {E, H});
  for (const LayoutFile& tensor : c.tensors) number(tensor.name, tensor.shape);
  layer().bias = c.bias != nullptr;
  const Plan found = plan();
  ASSERT_EQ(texts_of(found), std::vector<std::string>{});
  EXPECT_EQ(found.used, c.tensors.size() + 1);
  for (int64_t e = 0; e < E; ++e) {
    for (const uint32_t part : {G, U, D}) {
      const int64_t out = part == D ? H : I, in = part == D ? I : H;
      std::vector<float> wanted, wanted_bias;
      for (int64_t o = 0; o < out; ++o) {
        if (c.bias != nullptr) wanted_bias.push_back(static_cast<float>(c.bias(e, part, o)));
        for (int64_t i = 0; i < in; ++i)
          wanted.push_back(static_cast<float>(c.weight(e, part, o, i)));
      }
      const Part weight = read(found, Target::expert, part, e);
      EXPECT_EQ(weight.shape, (std::vector<int64_t>{out, in})) << "part " << part;
      EXPECT_EQ(weight.values, wanted) << "expert " << e << ", part " << part;
      if (c.bias == nullptr) continue;
      const Part b = read(found, Target::expert, part, e, MOERT_ROLE_BIAS);
      EXPECT_EQ(b.shape, std::vector<int64_t>{out});
      EXPECT_EQ(b.values, wanted_bias) << "bias of expert " << e << ", part " << part;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, LayoutWindows, ::testing::ValuesIn(kLayouts),
                         [](const auto& test) { return std::string(test.param.name); });

// One tensor of an expert, first half up, both halves as columns.
TEST_F(Numbered, OneExpertsTransposedPair) {
  TensorRule pair = expert_rule("e.{expert}.in", {U, G}), down = expert_rule("e.{expert}.out", {D});
  pair.transposed = down.transposed = true;
  tensors.experts = {{"pairs", {pair, down}}};
  add_rule(Target::router, "l.{layer}.router", MOERT_ROUTER_GATE_WEIGHT);
  number("l.1.router", {E, H});
  for (int64_t e = 0; e < E; ++e) {
    number("l.1.e." + std::to_string(e) + ".in", {H, 2 * I});
    number("l.1.e." + std::to_string(e) + ".out", {I, H});
  }
  const Plan found = plan();
  ASSERT_EQ(texts_of(found), std::vector<std::string>{});
  for (int64_t e = 0; e < E; ++e) {
    for (int64_t o = 0; o < I; ++o)
      for (int64_t i = 0; i < H; ++i) {
        const auto at = static_cast<size_t>(o * H + i);
        EXPECT_EQ(read(found, Target::expert, U, e).values[at], static_cast<float>(i * 2 * I + o));
        EXPECT_EQ(read(found, Target::expert, G, e).values[at],
                  static_cast<float>(i * 2 * I + I + o));
        EXPECT_EQ(read(found, Target::expert, D, e).values[static_cast<size_t>(i * I + o)],
                  static_cast<float>(o * H + i));
      }
  }
}

// The same names under two layouts: [E, 2I, H] as it is used, or [E, H, 2I].
class SameNames : public Numbered {
 protected:
  void SetUp() override {
    tensors.experts = {{"as_used", {expert_rule("in", {G, U}), expert_rule("out", {D})}},
                       {"transposed", {expert_rule("in", {G, U}), expert_rule("out", {D})}}};
    for (TensorRule& rule : tensors.experts[1].rules) rule.transposed = true;
    add_rule(Target::router, "l.{layer}.router", MOERT_ROUTER_GATE_WEIGHT);
  }
  void store(int64_t width, bool turned) {
    layer().intermediate_size = width;
    edit.tensors.clear();
    number("l.1.router", {E, H});
    number("l.1.in",
           turned ? std::vector<int64_t>{E, H, 2 * width} : std::vector<int64_t>{E, 2 * width, H});
    number("l.1.out",
           turned ? std::vector<int64_t>{E, width, H} : std::vector<int64_t>{E, H, width});
  }
};

TEST_F(SameNames, AreToldApartByShape) {
  for (const bool turned : {false, true}) {
    store(I, turned);
    const Plan found = plan();
    ASSERT_EQ(texts_of(found), std::vector<std::string>{}) << turned;
    EXPECT_EQ(found.layers[0].layout, turned ? "transposed" : "as_used");
    EXPECT_EQ(read(found, Target::expert, D, 1).values[1],
              static_cast<float>(turned ? I * H + H : H * I + 1));
  }
}

TEST_F(SameNames, OneTellingTensorIsEnough) {
  store(H, false);  // `out` is square, `in` is not
  EXPECT_EQ(plan().layers[0].layout, "as_used");
  EXPECT_EQ(texts_of(plan()), std::vector<std::string>{});
  store(H, true);
  EXPECT_EQ(plan().layers[0].layout, "transposed");
  EXPECT_EQ(texts_of(plan()), std::vector<std::string>{});
}

TEST_F(SameNames, SquaresFitBothAndAreAFinding) {
  for (spec::Layout& layout : tensors.experts) {
    const bool turned = layout.name == "transposed";
    layout.rules = {stored("g", {G}, turned ? transposed : plain),
                    stored("u", {U}, turned ? transposed : plain),
                    stored("out", {D}, turned ? transposed : plain)};
  }
  layer().intermediate_size = H;
  number("l.1.router", {E, H});
  for (const char* name : {"l.1.g", "l.1.u", "l.1.out"}) number(name, {E, H, H});
  const Plan found = plan();
  ASSERT_EQ(texts_of(found), std::vector<std::string>{"misshapen l.1.g"});
  EXPECT_NE(found.findings[0].detail.find("'as_used'"), std::string::npos);
  EXPECT_NE(found.findings[0].detail.find("'transposed'"), std::string::npos);
  const auto error = error_of([&] { found.require_complete(*checkpoint); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->fault(), Fault::input);
  EXPECT_NE(error->problem().find("'as_used' and 'transposed'"), std::string::npos)
      << error->what();
}

TEST_F(SameNames, AnotherOrderOfHalvesIsAFinding) {
  tensors.experts[1] = {"up_first", {expert_rule("in", {U, G}), expert_rule("out", {D})}};
  store(I, false);
  expect_one("misshapen l.1.in", "fits the layouts 'as_used' and 'up_first' alike");
}

TEST_F(SameNames, AnotherInterleavingIsAFinding) {
  tensors.experts[1] = {"alternating",
                        {stored("in", {G, U}, interleaved), expert_rule("out", {D})}};
  store(I, false);
  expect_one("misshapen l.1.in", "fits the layouts 'as_used' and 'alternating' alike");
}

TEST_F(SameNames, NeitherFittingNamesTheShape) {
  store(I, false);
  edit.reshape("l.1.in", {E, 2 * I, H + 1});
  edit.reshape("l.1.out", {E, H + 1, I});
  const Plan found = plan();
  ASSERT_EQ(texts_of(found), (std::vector<std::string>{"misshapen l.1.in", "misshapen l.1.out"}));
  EXPECT_EQ(found.findings[0].detail, "is f32 [4, 6, 6], expected [4, 6, 5]");
  EXPECT_EQ(found.findings[1].detail, "is f32 [4, 6, 3], expected [4, 5, 3]");
}

// Flat or stacked is a question of rank.
TEST_F(SameNames, FlatAndStacked) {
  tensors.experts = {
      {"stacked", {expert_rule("w", {G}), expert_rule("v", {U}), expert_rule("d", {D})}},
      {"flat", {stored("w", {G}, flat), stored("v", {U}, flat), stored("d", {D}, flat)}}};
  number("l.1.router", {E, H});
  number("l.1.w", {E * I, H});
  number("l.1.v", {E * I, H});
  number("l.1.d", {E * H, I});
  const Plan found = plan();
  ASSERT_EQ(texts_of(found), std::vector<std::string>{});
  EXPECT_EQ(found.layers[0].layout, "flat");
  EXPECT_EQ(read(found, Target::expert, G, 3).values[0], static_cast<float>(3 * I * H));
  edit.reshape("l.1.w", {(E + 1) * I, H});
  expect_one("misshapen l.1.w", "is f32 [15, 5], expected [12, 5]");
}

// A release under another beginning of names: what is missing is called as its neighbours are.
TEST_F(Numbered, WhatIsMissingHasTheCheckpointsRoot) {
  for (const char* root : {"a.", "b.c."}) {
    const std::string prefix = root + std::string("l.{layer}.");
    tensors.experts.push_back(split_layout(prefix));
    tensors.experts.back().name += std::string(" under ") + root;
    add_rule(Target::router, prefix + "router", MOERT_ROUTER_GATE_WEIGHT);
    add_rule(Target::router, prefix + "bias", MOERT_ROUTER_SELECTION_BIAS);
  }
  layer().routing.selection_bias = true;
  for (const char* root : {"a.", "b.c."}) {
    const std::string prefix = root + std::string("l.1.");
    edit.tensors.clear();
    add_split(prefix);
    number(prefix + "bias", {E});
    expect_fits();
    EXPECT_EQ(plan().layers[0].layout, std::string("split under ") + root);
    edit.drop(prefix + "router");
    edit.drop(prefix + "bias");
    edit.drop(prefix + "e.2.up");
    EXPECT_EQ(texts_of(plan()), (std::vector<std::string>{"missing " + prefix + "e.2.up",
                                                          "missing " + prefix + "router",
                                                          "missing " + prefix + "bias"}));
  }
}

}  // namespace
}  // namespace moert::weights
