// What plugins are asked: flags, numbers and texts of every field of a layer's spec.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>

#include <moert/sdk/tensor.hpp>

#include "runtime/layer_problem.hpp"

namespace moert::runtime {
namespace {

using Params = std::map<std::string, std::string>;

spec::MoELayer plain_layer() {
  spec::MoELayer layer;
  layer.layer_id = 7;
  layer.intermediate_size = 24;
  layer.routing.num_experts = 16;
  layer.routing.top_k = 4;
  return layer;
}

spec::Model model_of(const spec::MoELayer& layer) {
  spec::Model model;
  model.hidden_size = 64;
  model.num_layers = 8;
  model.layers = {layer};
  return model;
}

LayerSetting setting() { return {kCpu, 32, MOERT_DTYPE_BF16, "bf16", "f32", "f16"}; }

Params params_of(const moert_routing_t& routing) {
  Params params;
  for (uint32_t i = 0; i < routing.n_params; ++i) {
    EXPECT_FALSE(params.contains(routing.params[i].key)) << routing.params[i].key;
    params[routing.params[i].key] = routing.params[i].value;
  }
  return params;
}

// One field of the spec, and what a router is told of it. Nothing else may change.
struct RoutingCase {
  const char* name;
  void (*change)(spec::Routing&);
  uint32_t flags;
  Params params;
  const char* method = "topk";
};
std::ostream& operator<<(std::ostream& out, const RoutingCase& c) { return out << c.name; }

class RoutingFields : public ::testing::TestWithParam<RoutingCase> {};

TEST_P(RoutingFields, BecomeFlagsAndTexts) {
  spec::MoELayer layer = plain_layer();
  GetParam().change(layer.routing);
  const LayerProblem problem(model_of(layer), layer, setting());
  const moert_routing_t& r = problem.routing();
  EXPECT_EQ(r.flags, GetParam().flags);
  EXPECT_EQ(params_of(r), GetParam().params);
  EXPECT_STREQ(r.method, GetParam().method);
  EXPECT_EQ(r.struct_size, sizeof r);
  EXPECT_EQ(r.layer_id, 7);
  EXPECT_EQ(r.hidden_size, 64);
  EXPECT_EQ(r.num_experts, 16);
  EXPECT_EQ(r.top_k, 4);
  EXPECT_EQ(r.max_tokens, 32);
  EXPECT_EQ(r.activation_dtype, static_cast<uint32_t>(MOERT_DTYPE_BF16));
  EXPECT_EQ(problem.layer().flags, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    LayerProblem, RoutingFields,
    ::testing::Values(
        RoutingCase{"plain", [](spec::Routing&) {}, 0, {}},
        RoutingCase{"logit_scale",
                    [](spec::Routing& r) { r.logit_scale = 0.1; },
                    0,
                    {{"logit_scale", "0.1"}}},
        RoutingCase{"softcap",
                    [](spec::Routing& r) { r.logit_softcap = 30; },
                    0,
                    {{"logit_softcap", "30"}}},
        RoutingCase{"floor",
                    [](spec::Routing& r) {
                      r.renormalize = true;
                      r.renormalize_floor = 1e-12;
                    },
                    MOERT_ROUTING_RENORMALIZE,
                    {{"renormalize_floor", "1e-12"}}},
        RoutingCase{"unit_input",
                    [](spec::Routing& r) {
                      r.unit_input = true;
                      r.unit_input_eps = 1e-6;
                    },
                    MOERT_ROUTING_INPUT_NORM,
                    {{"input_norm_eps", "1e-06"}, {"input_gain", "0.125"}}},
        RoutingCase{"sparsemixer",
                    [](spec::Routing& r) {
                      r.method = "sparsemixer";
                      r.jitter_eps = 0.01;
                    },
                    0,
                    {{"jitter_eps", "0.01"}},
                    "sparsemixer"},
        RoutingCase{
            "jitter_of_no_sparsemixer", [](spec::Routing& r) { r.jitter_eps = 0.01; }, 0, {}},
        RoutingCase{"hash",
                    [](spec::Routing& r) { r.method = "hash"; },
                    MOERT_ROUTING_NEEDS_TOKEN_IDS,
                    {},
                    "hash"},
        RoutingCase{"simulated",
                    [](spec::Routing& r) {
                      r.method = "simulated";
                      r.distribution = "zipf";
                      r.seed = 9007199254740993;  // no double holds it
                    },
                    0,
                    {{"distribution", "zipf"}, {"seed", "9007199254740993"}},
                    "simulated"},
        RoutingCase{"bias_on_scores",
                    [](spec::Routing& r) { r.selection_bias = true; },
                    MOERT_ROUTING_SELECTION_BIAS,
                    {}},
        RoutingCase{"bias_on_logits",
                    [](spec::Routing& r) { r.selection_bias = r.bias_on_logits = true; },
                    MOERT_ROUTING_SELECTION_BIAS | MOERT_ROUTING_BIAS_ON_LOGITS,
                    {}},
        RoutingCase{
            "gate_bias", [](spec::Routing& r) { r.gate_bias = true; }, MOERT_ROUTING_GATE_BIAS, {}},
        RoutingCase{"expert_scale",
                    [](spec::Routing& r) { r.expert_scale = true; },
                    MOERT_ROUTING_EXPERT_SCALE,
                    {}}),
    [](const auto& test) { return std::string(test.param.name); });

// Texts read back as the same number.
TEST(LayerProblem, NumbersKeepEveryBit) {
  for (const double value : {1 / 3.0, 0x1p-40, 12345678.9, 1e-300}) {
    spec::MoELayer layer = plain_layer();
    layer.routing.logit_softcap = value;
    const LayerProblem problem(model_of(layer), layer, setting());
    EXPECT_EQ(std::strtod(params_of(problem.routing()).at("logit_softcap").c_str(), nullptr),
              value);
  }
  for (const int64_t hidden : {1, 20, 2880, 7168}) {
    spec::MoELayer layer = plain_layer();
    layer.routing.unit_input = true;
    spec::Model model = model_of(layer);
    model.hidden_size = hidden;
    const LayerProblem problem(model, layer, setting());
    EXPECT_DOUBLE_EQ(std::strtod(params_of(problem.routing()).at("input_gain").c_str(), nullptr),
                     std::pow(static_cast<double>(hidden), -0.5));
  }
}

TEST(LayerProblem, Groups) {
  spec::MoELayer layer = plain_layer();
  layer.routing.num_groups = 4;
  layer.routing.top_groups = 2;
  layer.routing.group_score = "top2_sum";
  const LayerProblem chosen(model_of(layer), layer, setting());
  EXPECT_EQ(chosen.routing().flags, static_cast<uint32_t>(MOERT_ROUTING_GROUPED));
  EXPECT_STREQ(chosen.routing().group_score, "top2_sum");
  EXPECT_EQ(chosen.routing().num_groups, 4);
  EXPECT_EQ(chosen.routing().top_groups, 2);
  layer.routing.method = "group_topk";  // every group gives some: no score of groups
  layer.routing.group_score.clear();
  layer.routing.top_groups = 4;
  const LayerProblem each(model_of(layer), layer, setting());
  EXPECT_EQ(each.routing().flags, static_cast<uint32_t>(MOERT_ROUTING_GROUPED));
  EXPECT_EQ(each.routing().group_score, nullptr);
  EXPECT_EQ(each.routing().num_groups, 4);
  EXPECT_EQ(each.routing().top_groups, 4);
  layer.routing.method = "topk";
  layer.routing.num_groups = layer.routing.top_groups = 1;
  const LayerProblem none(model_of(layer), layer, setting());
  EXPECT_EQ(none.routing().flags, 0u);
  EXPECT_EQ(none.routing().num_groups, 0) << "numbers that a rule does not use are 0";
  EXPECT_EQ(none.routing().top_groups, 0);
}

// Either the weights or the output, whatever else a layer has.
TEST(LayerProblem, TheRoutedScaleStandsInOnePlace) {
  for (const bool on_output : {false, true}) {
    for (const bool with_shared : {false, true}) {
      for (const bool average : {false, true}) {
        spec::MoELayer layer = plain_layer();
        layer.routing.routed_scale = 2.5;
        layer.routing.scale_on_output = on_output;
        if (with_shared) layer.shared = spec::SharedExperts{1, 12, false, average, {}};
        const LayerProblem problem(model_of(layer), layer, setting());
        const double half = with_shared && average ? 0.5 : 1;
        EXPECT_EQ(problem.routing().routed_scale, on_output ? 1 : 2.5);
        EXPECT_EQ(problem.layer().output_scale, (on_output ? 2.5 : 1) * half);
        EXPECT_EQ(problem.layer().shared_scale, half == 0.5 ? 0.5 : 0);
        EXPECT_EQ(problem.layer().flags,
                  half == 0.5 ? static_cast<uint32_t>(MOERT_LAYER_SHARED_SCALE) : 0u);
        EXPECT_EQ(problem.routing().routed_scale * problem.layer().output_scale, 2.5 * half);
      }
    }
  }
}

struct LayerCase {
  const char* name;
  void (*change)(spec::MoELayer&);
  uint32_t flags;
};
std::ostream& operator<<(std::ostream& out, const LayerCase& c) { return out << c.name; }

class LayerFields : public ::testing::TestWithParam<LayerCase> {};

TEST_P(LayerFields, BecomeFlagsAndTheSumWaits) {
  spec::MoELayer layer = plain_layer();
  layer.expert_norm_eps = 1e-5;
  GetParam().change(layer);
  const LayerProblem problem(model_of(layer), layer, setting());
  const moert_moe_layer_t& l = problem.layer();
  EXPECT_EQ(l.flags, GetParam().flags);
  EXPECT_EQ(l.hidden_size, 64);
  EXPECT_EQ(l.norm_eps, 1e-5);
  EXPECT_EQ(l.experts, &problem.experts());
  EXPECT_EQ(l.routing, &problem.routing());
  EXPECT_EQ(l.shared, problem.shared());
  const int64_t zero = layer.routing.zero_experts;
  EXPECT_EQ(problem.experts().num_experts, 16);
  EXPECT_EQ(problem.experts().num_local_experts, 16);
  EXPECT_EQ(problem.routing().num_experts, 16 + zero);
  EXPECT_EQ(problem.routing().hidden_size, 64) << "the router reads the layer's own rows";
  EXPECT_EQ(problem.experts().hidden_size, layer.latent_size != 0 ? layer.latent_size : 64);
  // One rounding: where something is still to be done, experts give f32.
  EXPECT_EQ(problem.experts().output_dtype,
            static_cast<uint32_t>(l.flags != 0 ? MOERT_DTYPE_F32 : MOERT_DTYPE_BF16));
}

INSTANTIATE_TEST_SUITE_P(
    LayerProblem, LayerFields,
    ::testing::Values(
        LayerCase{"plain", [](spec::MoELayer&) {}, 0},
        LayerCase{"zero_experts", [](spec::MoELayer& l) { l.routing.zero_experts = 3; },
                  MOERT_LAYER_ZERO_EXPERTS},
        LayerCase{"latent", [](spec::MoELayer& l) { l.latent_size = 16; }, MOERT_LAYER_LATENT},
        LayerCase{"norm_in", [](spec::MoELayer& l) { l.expert_norm = "in"; }, MOERT_LAYER_NORM_IN},
        LayerCase{"norm_out", [](spec::MoELayer& l) { l.expert_norm = "out"; },
                  MOERT_LAYER_NORM_OUT},
        LayerCase{"output_bias", [](spec::MoELayer& l) { l.output_bias = true; },
                  MOERT_LAYER_OUTPUT_BIAS},
        LayerCase{"all",
                  [](spec::MoELayer& l) {
                    l.routing.zero_experts = 3;
                    l.latent_size = 16;
                    l.expert_norm = "in";
                    l.output_bias = true;
                  },
                  MOERT_LAYER_ZERO_EXPERTS | MOERT_LAYER_LATENT | MOERT_LAYER_NORM_IN |
                      MOERT_LAYER_OUTPUT_BIAS}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(LayerProblem, SharedExpertsHaveTheirOwnNumbers) {
  spec::MoELayer layer = plain_layer();
  layer.latent_size = 16;
  layer.activation = {"swiglustep", 0, 0, 7};
  layer.shared = spec::SharedExperts{2, 40, true, false, {"silu", 0, 0, 0}};
  const LayerProblem problem(model_of(layer), layer, setting());
  ASSERT_NE(problem.shared(), nullptr);
  const moert_shared_problem_t& s = *problem.shared();
  EXPECT_EQ(s.hidden_size, 64) << "not the latent width";
  EXPECT_EQ(s.intermediate_size, 40);
  EXPECT_EQ(s.flags, static_cast<uint32_t>(MOERT_SHARED_SIGMOID_GATE));
  EXPECT_STREQ(s.activation->name, "silu");
  EXPECT_EQ(s.activation->limit, 0);
  EXPECT_STREQ(problem.experts().activation->name, "swiglustep");
  EXPECT_EQ(problem.experts().activation->limit, 7);
  EXPECT_STREQ(s.weight_scheme, "f32");
  EXPECT_STREQ(problem.experts().weight_scheme, "bf16");
  EXPECT_EQ(s.output_dtype, static_cast<uint32_t>(MOERT_DTYPE_F32));
}

TEST(LayerProblem, BiasesAreThoseOfSharedExpertsToo) {
  spec::MoELayer layer = plain_layer();
  layer.shared = spec::SharedExperts{1, 40, false, false, {}};
  for (const bool bias : {false, true}) {
    layer.bias = bias;
    const LayerProblem problem(model_of(layer), layer, setting());
    EXPECT_EQ(problem.shared()->flags, bias ? static_cast<uint32_t>(MOERT_SHARED_BIAS) : 0u);
    EXPECT_EQ(problem.experts().flags, bias ? static_cast<uint32_t>(MOERT_PROBLEM_BIAS) : 0u);
  }
}

TEST(LayerProblem, WeightsOnTheInput) {
  spec::MoELayer layer = plain_layer();
  layer.weight_on_input = true;
  EXPECT_EQ(LayerProblem(model_of(layer), layer, setting()).experts().flags,
            static_cast<uint32_t>(MOERT_PROBLEM_WEIGHT_ON_INPUT));
}

}  // namespace
}  // namespace moert::runtime
