// Tensors that experts do not have: the router's, the layer's own, and those around zero experts.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "unit/weights/numbered.hpp"

namespace moert::weights {
namespace {

using spec::Target;

constexpr int64_t kHidden = 5, kInner = 3, kExperts = 4;
constexpr const char* kRouter = "l.{layer}.router";

class RouterTensors : public Numbered {
 protected:
  void SetUp() override {
    tensors.experts = {split_layout()};
    add_rule(Target::router, kRouter, MOERT_ROUTER_GATE_WEIGHT);
    add_split();
  }
};

TEST_F(RouterTensors, TransposedGate) {
  tensors.others[0].transposed = true;
  expect_one("misshapen l.1.router", "is f32 [4, 5], expected [5, 4]");
  edit.drop("l.1.router");
  number("l.1.router", {kHidden, kExperts});
  const Plan found = plan();
  ASSERT_EQ(texts_of(found), std::vector<std::string>{});
  const Part gate = read(found, Target::router, MOERT_ROUTER_GATE_WEIGHT);
  EXPECT_EQ(gate.shape, (std::vector<int64_t>{kExperts, kHidden}));
  for (int64_t e = 0; e < kExperts; ++e)
    for (int64_t h = 0; h < kHidden; ++h)
      EXPECT_EQ(gate.values[static_cast<size_t>(e * kHidden + h)],
                static_cast<float>(h * kExperts + e));
}

TEST_F(RouterTensors, ZeroExpertsHaveRowsInTheGateAndItsBias) {
  add_rule(Target::router, "l.{layer}.bias", MOERT_ROUTER_SELECTION_BIAS);
  layer().routing.zero_experts = 2;
  layer().routing.selection_bias = true;
  number("l.1.bias", {kExperts});
  const Plan found = plan();
  ASSERT_EQ(texts_of(found),
            (std::vector<std::string>{"misshapen l.1.router", "misshapen l.1.bias"}));
  EXPECT_EQ(found.findings[0].detail, "is f32 [4, 5], expected [6, 5]");
  EXPECT_EQ(found.findings[1].detail, "is f32 [4], expected [6]");
  edit.drop("l.1.router");
  edit.drop("l.1.bias");
  number("l.1.router", {kExperts + 2, kHidden});
  number("l.1.bias", {kExperts + 2});
  const Plan fits = plan();
  ASSERT_EQ(texts_of(fits), std::vector<std::string>{});
  EXPECT_EQ(read(fits, Target::router, MOERT_ROUTER_SELECTION_BIAS).values,
            (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(read(fits, Target::router, MOERT_ROUTER_GATE_WEIGHT).values.back(), 6 * kHidden - 1);
}

TEST_F(RouterTensors, StoredWeightsOfZeroExpertsAreIgnored) {
  layer().routing.zero_experts = 2;
  edit.reshape("l.1.router", {kExperts + 2, kHidden});
  for (const char* part : {"gate", "up", "down"})
    for (const char* expert : {"l.1.e.4.", "l.1.e.5."}) edit.add(std::string(expert) + part, {1});
  const Plan found = plan();
  EXPECT_EQ(texts_of(found), std::vector<std::string>{});
  EXPECT_EQ(found.ignored, 6u);
  ASSERT_EQ(found.ignored_by_reason.size(), 1u);
  EXPECT_EQ(found.ignored_by_reason[0].first, "weights of experts that only return their input");
  EXPECT_EQ(found.ignored_by_reason[0].second, 6u);
  for (const Source& source : found.layers[0].sources) EXPECT_LT(source.expert, kExperts);
  edit.add("l.1.e.6.up", {kInner, kHidden});  // beyond them
  expect_one("unexpected l.1.e.6.up", "layer 1 has 4 experts");
}

TEST_F(RouterTensors, TokenTableOfIntegers) {
  add_rule(Target::router, "l.{layer}.table", MOERT_ROUTER_TOKEN_TABLE);
  layer().routing.method = "hash";
  EXPECT_EQ(texts_of(plan()), std::vector<std::string>{"missing l.1.table"});
  for (const uint32_t dtype : {MOERT_DTYPE_I32, MOERT_DTYPE_I64}) {
    edit.add("l.1.table", {7, 2}, dtype);
    for (size_t i = 0; i < edit.at("l.1.table").data.size(); ++i)
      edit.at("l.1.table").data[i] = static_cast<std::byte>(i);
    const Plan found = plan();
    ASSERT_EQ(texts_of(found), std::vector<std::string>{}) << dtype_name(dtype);
    for (const Source& source : found.layers[0].sources) {
      if (source.target != Target::router || source.part != MOERT_ROUTER_TOKEN_TABLE) continue;
      const TensorView view = source_view(*checkpoint, source);
      EXPECT_EQ(tensor_text(*view.get()), std::string(dtype_name(dtype)) + " [7, 2]");
      EXPECT_EQ(std::memcmp(view.get()->data, edit.at("l.1.table").data.data(), view.get()->bytes),
                0);
    }
    edit.drop("l.1.table");
  }
}

TEST_F(RouterTensors, OtherTokenTables) {
  add_rule(Target::router, "l.{layer}.table", MOERT_ROUTER_TOKEN_TABLE);
  layer().routing.method = "hash";
  edit.add("l.1.table", {7, 2}, MOERT_DTYPE_F32);
  expect_one("misshapen l.1.table", "is f32 [7, 2], expected i32 or i64");
  edit.at("l.1.table").dtype = MOERT_DTYPE_I32;
  edit.reshape("l.1.table", {7, 3});  // three slots, the model has two
  expect_one("misshapen l.1.table", "is i32 [7, 3], expected [any, 2]");
  edit.reshape("l.1.table", {0, 2});
  expect_one("misshapen l.1.table", "is i32 [0, 2], expected [any, 2]");
  edit.reshape("l.1.table", {7, 2});
  layer().routing.method = "topk";
  expect_one("unexpected l.1.table", "does not route by a table of tokens");
}

// A tensor that the model's word decides about.
struct Decided {
  const char* name;
  Target target;
  uint32_t part;
  void (*ask)(spec::MoELayer&);
  std::vector<int64_t> shape;  // kExperts = 4, kHidden = 5, no latent width
  const char* why_not;
};
std::ostream& operator<<(std::ostream& out, const Decided& c) { return out << c.name; }

class DecidedTensors : public RouterTensors, public ::testing::WithParamInterface<Decided> {};

TEST_P(DecidedTensors, AreNeededOrUnwantedAsTheModelSays) {
  const Decided& c = GetParam();
  add_rule(c.target, "l.{layer}.extra", c.part);
  tensors.others.back().optional = true;  // the model's word outweighs the rule's
  expect_fits();
  number("l.1.extra", c.shape);
  expect_one("unexpected l.1.extra", c.why_not);
  c.ask(layer());
  const Plan found = plan();
  ASSERT_EQ(texts_of(found), std::vector<std::string>{});
  const Part read_back = read(found, c.target, c.part);
  EXPECT_EQ(read_back.shape, std::vector<int64_t>{c.shape.back()});
  for (size_t i = 0; i < read_back.values.size(); ++i)
    EXPECT_EQ(read_back.values[i], static_cast<float>(i));
  edit.retype("l.1.extra", MOERT_DTYPE_I32);
  expect_one("misshapen l.1.extra", "expected f64, f32, f16 or bf16");
  edit.retype("l.1.extra", MOERT_DTYPE_F32);
  edit.reshape("l.1.extra", {c.shape.back() + 1});
  expect_one("misshapen l.1.extra", "expected [" + std::to_string(c.shape.back()) + "]");
  edit.drop("l.1.extra");
  EXPECT_EQ(texts_of(plan()), std::vector<std::string>{"missing l.1.extra"});
}

INSTANTIATE_TEST_SUITE_P(
    Tensors, DecidedTensors,
    ::testing::Values(Decided{"expert_scale",
                              Target::router,
                              MOERT_ROUTER_EXPERT_SCALE,
                              [](spec::MoELayer& l) { l.routing.expert_scale = true; },
                              {kExperts},
                              "the model's experts have no scale"},
                      Decided{"input_scale",
                              Target::router,
                              MOERT_ROUTER_INPUT_SCALE,
                              [](spec::MoELayer& l) { l.routing.unit_input = true; },
                              {kHidden},
                              "the model's router reads rows as they are"},
                      Decided{"input_scale_of_one_row",
                              Target::router,
                              MOERT_ROUTER_INPUT_SCALE,
                              [](spec::MoELayer& l) { l.routing.unit_input = true; },
                              {1, kHidden},
                              "the model's router reads rows as they are"},
                      Decided{"gate_bias",
                              Target::router,
                              MOERT_ROUTER_GATE_BIAS,
                              [](spec::MoELayer& l) { l.routing.gate_bias = true; },
                              {kExperts},
                              "the model's gate has no bias"},
                      Decided{"norm_in",
                              Target::layer,
                              MOERT_PART_EXPERT_NORM,
                              [](spec::MoELayer& l) { l.expert_norm = "in"; },
                              {kHidden},
                              "the model's experts have no norm"},
                      Decided{"norm_out",
                              Target::layer,
                              MOERT_PART_EXPERT_NORM,
                              [](spec::MoELayer& l) { l.expert_norm = "out"; },
                              {kHidden},
                              "the model's experts have no norm"},
                      Decided{"output_bias",
                              Target::layer,
                              MOERT_PART_OUTPUT_BIAS,
                              [](spec::MoELayer& l) { l.output_bias = true; },
                              {kHidden},
                              "the model's layers have no output bias"}),
    [](const auto& test) { return std::string(test.param.name); });

// Where experts have biases, shared ones have them too; the sigmoid gate has none.
TEST_F(RouterTensors, BiasesOfSharedExperts) {
  const auto bias_of = [](spec::TensorRule rule) {
    rule.pattern += "_bias";
    rule.role = MOERT_ROLE_BIAS;
    return rule;
  };
  layer().bias = true;
  layer().shared = spec::SharedExperts{1, 6, true, false, {}};
  for (const auto& [name, part] :
       {std::pair{"gate", MOERT_PART_GATE}, {"up", MOERT_PART_UP}, {"down", MOERT_PART_DOWN}}) {
    const uint32_t number_of_part = static_cast<uint32_t>(part);
    const bool is_down = number_of_part == MOERT_PART_DOWN;
    tensors.experts[0].rules.push_back(
        bias_of(expert_rule(std::string("e.{expert}.") + name, {number_of_part})));
    for (int64_t e = 0; e < kExperts; ++e)
      number("l.1.e." + std::to_string(e) + "." + name + "_bias", {is_down ? kHidden : kInner});
    add_rule(Target::shared, std::string("l.{layer}.s.") + name, number_of_part);
    tensors.others.push_back(bias_of(tensors.others.back()));
    number(std::string("l.1.s.") + name,
           is_down ? std::vector<int64_t>{kHidden, 6} : std::vector<int64_t>{6, kHidden});
    number(std::string("l.1.s.") + name + "_bias", {is_down ? kHidden : 6});
  }
  add_rule(Target::shared, "l.{layer}.s.sigmoid", MOERT_PART_SIGMOID_GATE);
  number("l.1.s.sigmoid", {1, kHidden});
  const Plan found = plan();
  ASSERT_EQ(texts_of(found), std::vector<std::string>{});
  EXPECT_EQ(read(found, Target::shared, MOERT_PART_DOWN, 0, MOERT_ROLE_BIAS).values,
            (std::vector<float>{0, 1, 2, 3, 4}));
  EXPECT_EQ(read(found, Target::shared, MOERT_PART_SIGMOID_GATE).shape,
            std::vector<int64_t>{kHidden});
  edit.drop("l.1.s.up_bias");
  EXPECT_EQ(texts_of(plan()), std::vector<std::string>{"missing l.1.s.up_bias"});
}

// Experts of width 2 in a layer of width 5.
class Latent : public RouterTensors {
 protected:
  static constexpr int64_t kLatent = 2;
  void SetUp() override {
    RouterTensors::SetUp();
    add_rule(Target::layer, "l.{layer}.down", MOERT_PART_LATENT_DOWN);
    add_rule(Target::layer, "l.{layer}.up", MOERT_PART_LATENT_UP);
    add_rule(Target::layer, "l.{layer}.norm", MOERT_PART_EXPERT_NORM);
    add_rule(Target::layer, "l.{layer}.out_bias", MOERT_PART_OUTPUT_BIAS);
    add_rule(Target::shared, "l.{layer}.s.gate", MOERT_PART_GATE);
    add_rule(Target::shared, "l.{layer}.s.up", MOERT_PART_UP);
    add_rule(Target::shared, "l.{layer}.s.down", MOERT_PART_DOWN);
    for (int64_t e = 0; e < kExperts; ++e) {
      const std::string expert = "l.1.e." + std::to_string(e);
      edit.reshape(expert + ".gate", {kInner, kLatent});
      edit.reshape(expert + ".up", {kInner, kLatent});
      edit.reshape(expert + ".down", {kLatent, kInner});
    }
    number("l.1.down", {kLatent, kHidden});
    number("l.1.up", {kHidden, kLatent});
    number("l.1.norm", {kLatent});
    number("l.1.out_bias", {kHidden});
    // Shared experts stay in the layer's own width.
    number("l.1.s.gate", {6, kHidden});
    number("l.1.s.up", {6, kHidden});
    number("l.1.s.down", {kHidden, 6});
    layer().latent_size = kLatent;
    layer().expert_norm = "out";
    layer().output_bias = true;
    layer().shared = spec::SharedExperts{1, 6, false, false, {}};
  }
};

TEST_F(Latent, Fits) {
  const Plan found = plan();
  ASSERT_EQ(texts_of(found), std::vector<std::string>{});
  EXPECT_EQ(found.layers[0].layer_scheme, "f32");
  EXPECT_EQ(read(found, Target::expert, MOERT_PART_UP, 3).shape,
            (std::vector<int64_t>{kInner, kLatent}));
  EXPECT_EQ(read(found, Target::layer, MOERT_PART_LATENT_UP).shape,
            (std::vector<int64_t>{kHidden, kLatent}));
  EXPECT_EQ(read(found, Target::layer, MOERT_PART_EXPERT_NORM).values, (std::vector<float>{0, 1}));
  EXPECT_EQ(read(found, Target::shared, MOERT_PART_DOWN).shape, (std::vector<int64_t>{kHidden, 6}));
  EXPECT_EQ(read(found, Target::router, MOERT_ROUTER_GATE_WEIGHT).shape,
            (std::vector<int64_t>{kExperts, kHidden}));
}

TEST_F(Latent, TransposedProjection) {
  tensors.others[1].transposed = true;
  expect_one("misshapen l.1.down", "is f32 [2, 5], expected [5, 2]");
  edit.reshape("l.1.down", {kHidden, kLatent});
  const Plan found = plan();
  ASSERT_EQ(texts_of(found), std::vector<std::string>{});
  const Part down = read(found, Target::layer, MOERT_PART_LATENT_DOWN);
  EXPECT_EQ(down.shape, (std::vector<int64_t>{kLatent, kHidden}));
  for (int64_t o = 0; o < kLatent; ++o)
    for (int64_t i = 0; i < kHidden; ++i)
      EXPECT_EQ(down.values[static_cast<size_t>(o * kHidden + i)],
                static_cast<float>(i * kLatent + o));
}

TEST_F(Latent, EveryTensorIsMissedByName) {
  for (const char* name : {"l.1.down", "l.1.up", "l.1.norm", "l.1.out_bias"}) {
    const testing::SafetensorsEdit whole = edit;
    edit.drop(name);
    EXPECT_EQ(texts_of(plan()), std::vector<std::string>{std::string("missing ") + name});
    edit = whole;
  }
}

TEST_F(Latent, WithoutTheWidthItsTensorsAreUnwanted) {
  layer().latent_size = 0;
  const std::vector<std::string> texts = texts_of(plan());
  for (const char* name : {"l.1.down", "l.1.up"})
    EXPECT_EQ(std::count(texts.begin(), texts.end(), std::string("unexpected ") + name), 1) << name;
  EXPECT_EQ(std::count(texts.begin(), texts.end(), "misshapen l.1.e.0.up"), 1)
      << "experts of the layer's width";
  EXPECT_EQ(std::count(texts.begin(), texts.end(), "misshapen l.1.norm"), 1)
      << "a norm of the layer's width";
}

TEST_F(Latent, ProjectionsOfTwoTypes) {
  edit.retype("l.1.up", MOERT_DTYPE_BF16);
  EXPECT_EQ(texts_of(plan()), std::vector<std::string>{});
  EXPECT_EQ(plan().layers[0].layer_scheme, "mixed");
  edit.retype("l.1.down", MOERT_DTYPE_BF16);  // experts may be of another type than they are
  EXPECT_EQ(texts_of(plan()), std::vector<std::string>{});
  EXPECT_EQ(plan().layers[0].layer_scheme, "bf16");
  EXPECT_EQ(plan().layers[0].scheme, "f32");
}

}  // namespace
}  // namespace moert::weights
