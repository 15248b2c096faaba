// The accounting: windows into tensors, layouts, numbers out of range, two names for one part.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>

#include <moert/abi/problem.h>
#include <moert/abi/router.h>
#include <moert/abi/shared_experts.h>

#include "unit/weights/support.hpp"

namespace moert::weights {
namespace {

using spec::Target;
using spec::TensorRule;
using testing::SafetensorsEdit;

constexpr int64_t kH = 3, kI = 2, kE = 2;

// Layer 1 of two; layer 0 is dense. The layout's rules are the test's.
class Plans : public ::testing::Test {
 protected:
  void SetUp() override {
    model.hidden_size = kH;
    model.num_layers = 2;
    spec::MoELayer layer;
    layer.layer_id = 1;
    layer.intermediate_size = kI;
    layer.routing.num_experts = kE;
    layer.routing.top_k = 1;
    model.layers = {layer};
    tensors.experts = {
        {"split",
         {rule_of(Target::expert, "l.{layer}.e.{expert}.gate", {MOERT_PART_GATE}),
          rule_of(Target::expert, "l.{layer}.e.{expert}.up", {MOERT_PART_UP}),
          rule_of(Target::expert, "l.{layer}.e.{expert}.down", {MOERT_PART_DOWN})}},
        {"fused",
         {rule_of(Target::expert, "l.{layer}.e.gate_up", {MOERT_PART_GATE, MOERT_PART_UP}),
          rule_of(Target::expert, "l.{layer}.e.down", {MOERT_PART_DOWN})}}};
    for (TensorRule& one : tensors.experts[1].rules) one.stacked = true;
    tensors.others = {rule_of(Target::router, "l.{layer}.router", {MOERT_ROUTER_GATE_WEIGHT})};
    edit.add("l.1.router", {kE, kH});
    for (const char* expert : {"l.1.e.0.", "l.1.e.1."}) {
      edit.add(std::string(expert) + "gate", {kI, kH});
      edit.add(std::string(expert) + "up", {kI, kH});
      edit.add(std::string(expert) + "down", {kH, kI});
    }
  }

  Plan plan() {
    const auto file = test_folder() / "model.safetensors";
    edit.write(file);
    checkpoint.emplace(file);
    return make_plan(model, tensors, *checkpoint);
  }
  void ignore(const std::string& pattern) {
    tensors.others.push_back(rule_of(Target::ignore, pattern, {}));
    tensors.others.back().reason = "tested";
  }
  void expect_one(const Plan& found, const std::string& text, const std::string& detail) {
    ASSERT_EQ(texts_of(found), std::vector<std::string>{text});
    EXPECT_NE(found.findings[0].detail.find(detail), std::string::npos) << found.findings[0].detail;
  }
  // Elements of the part's window, row by row.
  std::vector<float> values(const Plan& from, int64_t expert, uint32_t part, uint32_t role = 0) {
    std::vector<float> result;
    for (const Source& source : from.layers[0].sources) {
      if (source.target != Target::expert || source.expert != expert || source.part != part ||
          source.role != role)
        continue;
      const TensorView view = source_view(*checkpoint, source);
      const moert_tensor_t& t = *view.get();
      const int64_t rows = t.shape[0], columns = t.rank > 1 ? t.shape[1] : 1;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c)
          result.push_back(read_f32(t, r * t.strides[0] + (t.rank > 1 ? c * t.strides[1] : 0)));
      const int64_t last =
          (rows - 1) * t.strides[0] + (t.rank > 1 ? (columns - 1) * t.strides[1] : 0);
      EXPECT_EQ(t.bytes, static_cast<uint64_t>(last + 1) * sizeof(float));
      EXPECT_NE(t.flags & MOERT_TENSOR_READ_ONLY, 0u);
    }
    return result;
  }

  spec::Model model;
  spec::Tensors tensors;
  SafetensorsEdit edit;
  std::optional<Checkpoint> checkpoint;
};

// Every element says where it belongs: 1000 expert + 100 part + 10 row + column.
float mark(int64_t expert, uint32_t part, int64_t row, int64_t column) {
  return static_cast<float>(1000 * expert + 100 * part + 10 * row + column);
}

struct WindowCase {
  const char* name;
  bool transposed, interleaved, up_first;
};
std::ostream& operator<<(std::ostream& out, const WindowCase& c) { return out << c.name; }

class Windows : public Plans, public ::testing::WithParamInterface<WindowCase> {
 protected:
  // The fused tensors as the case stores them.
  void store() {
    const auto [name, transposed, interleaved, up_first] = GetParam();
    std::vector<float> pair(kE * 2 * kI * kH), down(kE * kH * kI), bias(kE * 2 * kI);
    for (int64_t e = 0; e < kE; ++e) {
      for (uint32_t half = 0; half < 2; ++half) {
        const uint32_t part = up_first ? 1 - half : half;
        for (int64_t r = 0; r < kI; ++r) {
          const int64_t row = interleaved ? 2 * r + half : half * kI + r;
          bias[static_cast<size_t>(e * 2 * kI + row)] = mark(e, part, r, 9);
          for (int64_t c = 0; c < kH; ++c)
            pair[static_cast<size_t>(e * 2 * kI * kH +
                                     (transposed ? c * 2 * kI + row : row * kH + c))] =
                mark(e, part, r, c);
        }
      }
      for (int64_t r = 0; r < kH; ++r)
        for (int64_t c = 0; c < kI; ++c)
          down[static_cast<size_t>(e * kH * kI + (transposed ? c * kH + r : r * kI + c))] =
              mark(e, 2, r, c);
    }
    edit.tensors.resize(1);
    edit.add_f32(
        "l.1.e.gate_up",
        transposed ? std::vector<int64_t>{kE, kH, 2 * kI} : std::vector<int64_t>{kE, 2 * kI, kH},
        pair);
    edit.add_f32("l.1.e.down",
                 transposed ? std::vector<int64_t>{kE, kI, kH} : std::vector<int64_t>{kE, kH, kI},
                 down);
    edit.add_f32("l.1.e.gate_up_bias", {kE, 2 * kI}, bias);
    edit.add_f32("l.1.e.down_bias", {kE, kH}, std::vector<float>(kE * kH, 5));
  }
};

TEST_P(Windows, GiveEachPartItsOwnElements) {
  store();
  auto& rules = tensors.experts[1].rules;
  if (GetParam().up_first) std::swap(rules[0].parts[0], rules[0].parts[1]);
  for (TensorRule& one : rules) one.transposed = GetParam().transposed;
  rules[0].interleaved = GetParam().interleaved;
  for (const char* name : {"gate_up", "down"}) {
    rules.push_back(rules[name[0] == 'g' ? 0 : 1]);
    rules.back().pattern = std::string("l.{layer}.e.") + name + "_bias";
    rules.back().role = MOERT_ROLE_BIAS;
  }
  model.layers[0].bias = true;
  const Plan found = plan();
  ASSERT_EQ(texts_of(found), std::vector<std::string>{});
  EXPECT_EQ(found.layers[0].layout, "fused");
  EXPECT_EQ(found.layers[0].sources.size(), size_t{6 * kE + 1});
  for (int64_t e = 0; e < kE; ++e) {
    for (uint32_t part = 0; part < 3; ++part) {
      std::vector<float> wanted, wanted_bias;
      for (int64_t r = 0; r < (part == 2 ? kH : kI); ++r) {
        wanted_bias.push_back(part == 2 ? 5 : mark(e, part, r, 9));
        for (int64_t c = 0; c < (part == 2 ? kI : kH); ++c) wanted.push_back(mark(e, part, r, c));
      }
      EXPECT_EQ(values(found, e, part), wanted) << "expert " << e << ", part " << part;
      EXPECT_EQ(values(found, e, part, MOERT_ROLE_BIAS), wanted_bias) << e << " " << part;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fused, Windows,
                         ::testing::Values(WindowCase{"halves", false, false, false},
                                           WindowCase{"halves_up_first", false, false, true},
                                           WindowCase{"interleaved", false, true, false},
                                           WindowCase{"interleaved_up_first", false, true, true},
                                           WindowCase{"transposed", true, false, false},
                                           WindowCase{"transposed_up_first", true, false, true},
                                           WindowCase{"transposed_interleaved", true, true, false}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_F(Plans, Fits) { EXPECT_EQ(texts_of(plan()), std::vector<std::string>{}); }

TEST_F(Plans, AnExpertTooMany) {
  edit.add("l.1.e.2.up", {kI, kH});
  const Plan found = plan();
  expect_one(found, "unexpected l.1.e.2.up", "layer 1 has 2 experts");
  EXPECT_EQ(found.findings[0].nearest, "l.1.e.1.up");
  ignore("l.*");
  expect_one(plan(), "unexpected l.1.e.2.up", "layer 1 has 2 experts");
}

TEST_F(Plans, ALayerTooMany) {
  edit.add("l.7.e.0.up", {kI, kH});
  expect_one(plan(), "unexpected l.7.e.0.up", "the model has 2 layers");
  ignore("*");
  ignore("l.{layer}.e.*");
  expect_one(plan(), "unexpected l.7.e.0.up", "the model has 2 layers");
  ignore("l.7.*");  // a rule that names the layer is no accident
  const Plan found = plan();
  EXPECT_EQ(texts_of(found), std::vector<std::string>{});
  EXPECT_EQ(found.ignored, 1u);
}

TEST_F(Plans, ExpertsOfADenseLayer) {
  edit.add("l.0.e.0.up", {kI, kH});
  const Plan found = plan();
  expect_one(found, "unexpected l.0.e.0.up", "layer 0 is dense");
  EXPECT_EQ(found.of_dense_layers, 1u);
}

// A dense layer's own tensors, in a layer of experts, would be a branch that nobody computes.
TEST_F(Plans, TensorsOfDenseLayersInALayerOfExperts) {
  ignore("l.{layer}.mlp.*");
  edit.add("l.0.mlp.up", {kI, kH});
  edit.add("l.1.mlp.up", {kI, kH});
  EXPECT_EQ(plan().ignored, 2u);
  tensors.others.back().dense_only = true;
  const Plan found = plan();
  expect_one(found, "unexpected l.1.mlp.up", "no rule of the family names it");
  EXPECT_EQ(found.ignored, 1u);
  EXPECT_EQ(found.of_dense_layers, 0u);
  tensors.others.back().pattern = "l.{layer}.mlp.up";  // a name without '*' takes another way
  expect_one(plan(), "unexpected l.1.mlp.up", "no rule of the family names it");
}

TEST_F(Plans, NumbersWithLeadingZeros) {
  edit.rename("l.1.e.0.up", "l.1.e.00.up");
  EXPECT_EQ(texts_of(plan()),
            (std::vector<std::string>{"missing l.1.e.0.up", "unexpected l.1.e.00.up"}));
}

TEST_F(Plans, AMixtureOfLayouts) {
  edit.add("l.1.e.down", {kE, kH, kI});
  expect_one(plan(), "unexpected l.1.e.down",
             "belongs to the layout 'fused', but layer 1 is stored as 'split'");
}

TEST_F(Plans, TwoNamesForOnePart) {
  tensors.experts[0].rules.push_back(
      rule_of(Target::expert, "l.{layer}.e.{expert}.w3", {MOERT_PART_UP}));
  edit.add("l.1.e.0.w3", {kI, kH});
  expect_one(plan(), "unexpected l.1.e.0.w3", "expert 0, up, as 'l.1.e.0.up' does");
  edit.drop("l.1.e.0.up");
  EXPECT_EQ(texts_of(plan()), std::vector<std::string>{});
  edit.drop("l.1.e.0.w3");  // named as its neighbour is
  EXPECT_EQ(texts_of(plan()), std::vector<std::string>{"missing l.1.e.0.up"});
  edit.rename("l.1.e.1.up", "l.1.e.1.w3");
  EXPECT_EQ(texts_of(plan()), std::vector<std::string>{"missing l.1.e.0.w3"});
}

TEST_F(Plans, MixedDtypesInOneLayer) {
  edit.retype("l.1.e.1.down", MOERT_DTYPE_BF16);
  const Plan found = plan();
  EXPECT_EQ(texts_of(found), std::vector<std::string>{});
  EXPECT_EQ(found.layers[0].scheme, "mixed");
  for (const Source& source : found.layers[0].sources) {
    if (source.format == kNoFormat) continue;
    EXPECT_EQ(found.formats[source.format].scheme.name, dtype_name(source.tensor->dtype))
        << source.tensor->name;
  }
}

TEST_F(Plans, SchemeIsTheDtypesName) {
  for (const uint32_t dtype : {MOERT_DTYPE_F16, MOERT_DTYPE_BF16, MOERT_DTYPE_F64}) {
    for (const std::string& name : edit.names())
      if (name.find(".e.") != std::string::npos) edit.retype(name, dtype);
    const Plan found = plan();
    EXPECT_EQ(texts_of(found), std::vector<std::string>{});
    EXPECT_EQ(found.layers[0].scheme, dtype_name(dtype));
  }
}

TEST_F(Plans, ARouterOfIntegers) {
  edit.retype("l.1.router", MOERT_DTYPE_I32);
  expect_one(plan(), "misshapen l.1.router", "is i32 [2, 3], expected f64, f32, f16 or bf16");
}

TEST_F(Plans, SelectionBias) {
  tensors.others.push_back(
      rule_of(Target::router, "l.{layer}.bias", {MOERT_ROUTER_SELECTION_BIAS}));
  tensors.others.back().optional = true;
  EXPECT_EQ(texts_of(plan()), std::vector<std::string>{});
  model.layers[0].routing.selection_bias = true;  // the model's word outweighs the rule's
  EXPECT_EQ(texts_of(plan()), std::vector<std::string>{"missing l.1.bias"});
  edit.add("l.1.bias", {1, kE});
  const Plan found = plan();
  ASSERT_EQ(texts_of(found), std::vector<std::string>{});
  for (const Source& source : found.layers[0].sources)
    if (source.target == Target::router && source.part == MOERT_ROUTER_SELECTION_BIAS) {
      EXPECT_EQ(tensor_text(*source_view(*checkpoint, source).get()), "f32 [2]");
    }
  edit.reshape("l.1.bias", {kE + 1});
  expect_one(plan(), "misshapen l.1.bias", "is f32 [3], expected [2]");
  edit.reshape("l.1.bias", {kE});
  edit.retype("l.1.bias", MOERT_DTYPE_F64);  // f32 could not keep it bit for bit
  edit.reshape("l.1.bias", {kE});            // with the bytes of that dtype
  expect_one(plan(), "misshapen l.1.bias", "is f64 [2], expected f32, f16 or bf16");
  edit.retype("l.1.bias", MOERT_DTYPE_F32);
  edit.reshape("l.1.bias", {kE});
  model.layers[0].routing.selection_bias = false;
  expect_one(plan(), "unexpected l.1.bias", "no selection bias");
}

TEST_F(Plans, SharedExpertsThatTheModelHasNot) {
  tensors.others.push_back(rule_of(Target::shared, "l.{layer}.s.up", {MOERT_PART_UP}));
  edit.add("l.1.s.up", {kI, kH});
  expect_one(plan(), "unexpected l.1.s.up", "no shared experts");
  model.layers[0].shared = spec::SharedExperts{1, kI, false, false, {}};
  EXPECT_EQ(texts_of(plan()),
            (std::vector<std::string>{"missing (layer 1, shared experts, gate)",
                                      "missing (layer 1, shared experts, down)"}));
}

TEST_F(Plans, ExpertsWithoutGate) {
  model.layers[0].gated = false;
  EXPECT_EQ(texts_of(plan()),
            (std::vector<std::string>{"unexpected l.1.e.0.gate", "unexpected l.1.e.1.gate"}));
  edit.drop("l.1.e.0.gate");
  edit.drop("l.1.e.1.gate");
  EXPECT_EQ(texts_of(plan()), std::vector<std::string>{});
}

TEST_F(Plans, AnotherWidthNamesBothShapes) {
  edit.reshape("l.1.e.0.up", {2 * kI, kH});
  expect_one(plan(), "misshapen l.1.e.0.up", "is f32 [4, 3], expected [2, 3]");
}

TEST_F(Plans, AnotherPrefixNamesTheNearest) {
  for (const std::string& name : edit.names())
    if (name.find(".e.") != std::string::npos) edit.rename(name, "l.1.mlp" + name.substr(3));
  const Plan found = plan();
  ASSERT_EQ(found.findings.size(), size_t{2 * 3 * kE});
  for (const Finding& finding : found.findings) {
    const bool missing = finding.kind == Finding::missing;
    EXPECT_EQ(finding.nearest,
              (missing ? "l.1.mlp" : "l.1") + finding.name.substr(missing ? 3 : 7));
  }
  const auto error = error_of([&] { found.require_complete(*checkpoint); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->fault(), Fault::input);
  EXPECT_EQ(error->problem(),
            "12 of 13 tensors do not fit: missing l.1.e.0.gate (layer 1, expert 0, gate)");
  EXPECT_EQ(error->remedy().substr(0, 29), "is 'l.1.mlp.e.0.gate' meant, ");
  EXPECT_NE(error->remedy().find("; and 6 more"), std::string::npos) << error->what();
}

TEST_F(Plans, NamesFromTheFileAreMadeFitForAMessage) {
  edit.add("l.1.\x1b[31m", {1});
  const Plan found = plan();
  const auto error = error_of([&] { found.require_complete(*checkpoint); });
  ASSERT_TRUE(error);
  EXPECT_EQ(std::string(error->what()).find('\x1b'), std::string::npos);
}

TEST_F(Plans, ModelsThatNoCheckpointHolds) {
  const std::function<void()> changes[] = {
      [&] { model.hidden_size = 0; },
      [&] { model.hidden_size = int64_t{1} << 62; },
      [&] { model.layers[0].intermediate_size = -1; },
      [&] { model.layers[0].routing.num_experts = 0; },
      [&] { model.layers[0].routing.num_experts = int64_t{1} << 30; },
      [&] { model.layers.push_back(model.layers[0]); },
      [&] { model.layers[0].shared = spec::SharedExperts{1, 0, false, false, {}}; },
  };
  const spec::Model good = model;
  for (const auto& change : changes) {
    model = good;
    change();
    expect_input_error([&] { plan(); }, "", "model.safetensors");
  }
}

TEST_F(Plans, ADenseModelTakesNothing) {
  model.layers.clear();
  const Plan found = plan();
  EXPECT_EQ(found.findings.size(), size_t{3 * kE + 1});
  EXPECT_TRUE(found.layers.empty());
}

// All experts that are missing are named once each, in time that does not explode.
TEST_F(Plans, EverythingMissing) {
  model.layers[0].routing.num_experts = 20000;
  edit.tensors.clear();
  const auto start = std::chrono::steady_clock::now();
  const Plan found = plan();
  EXPECT_EQ(found.findings.size(), 60001u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

}  // namespace
}  // namespace moert::weights
