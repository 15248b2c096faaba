// Public bug reports about what experts compute: scale, shared experts, activations, no tokens.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tiny_model.hpp"

namespace moert::bugs {
namespace {

// One expert of width one: gate, up and down are single numbers, so y = down * act(g x) * (u x).
Tiny scalar_expert(float gate, float up, float down) {
  Tiny tiny = olmoe({1, 1, 1, 1, 1});
  const std::string expert = "model.layers.0.mlp.experts.0.";
  tiny.set(expert + "gate_proj.weight", {1, 1}, {gate});
  tiny.set(expert + "up_proj.weight", {1, 1}, {up});
  tiny.set(expert + "down_proj.weight", {1, 1}, {down});
  return tiny;
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// The scale was applied to the shared experts too.
TEST(BugLayers, N70_TheRoutedScaleLeavesSharedExpertsAlone) {
  Tiny tiny = deepseek({4, 2, 6, 5, 1}, 1, 1);
  tiny.config["n_shared_experts"] = 1;
  add_mlp(tiny, "model.layers.0.mlp.shared_experts.", 6, 5);
  Tiny scaled = tiny, alone = deepseek({4, 2, 6, 5, 1}, 1, 1);
  scaled.config["routed_scaling_factor"] = 2.5;
  for (const auto& [name, tensor] : alone.tensors) alone.tensors[name] = tiny.tensors.at(name);
  Loaded one(tiny), other(scaled), routed(alone);
  const std::vector<float> hidden = random_rows(5, 6, 13);
  const std::vector<float> y1 = one.forward(hidden), y2 = other.forward(hidden),
                           r = routed.forward(hidden);
  for (size_t i = 0; i < r.size(); ++i)
    EXPECT_NEAR(static_cast<double>(y2[i] - y1[i]), 1.5 * static_cast<double>(r[i]), 1e-5) << i;
}

// A scale of one on the output, and one that is not: both with rows of 16 bits.
TEST(BugLayers, TheScaleMayStandOnTheOutputOfSixteenBitRows) {
  const fs::path folder = fs::path(MOERT_SOURCE_DIR) / "tests/data/olmoe-bf16";
  const auto output = [&](bool on_output, double scale) {
    spec::Model spec = families().resolve(folder);
    for (spec::MoELayer& layer : spec.layers) {
      layer.routing.scale_on_output = on_output;
      layer.routing.routed_scale = scale;
    }
    runtime::ModelSettings settings;
    settings.device = "cpu";
    settings.max_tokens = 2;
    settings.dtype = MOERT_DTYPE_BF16;
    spec::Tensors rules = families().tensors(spec);
    runtime::Model model(session(), std::move(spec), std::move(rules), settings);
    model.load();
    runtime::ForwardContext context(model, 2);
    const std::vector<uint16_t> hidden(static_cast<size_t>(2 * model.spec().hidden_size), 0x3f80);
    std::vector<uint16_t> out(hidden.size());
    context.set_hidden(hidden.data(), 2);
    context.forward(0);
    context.read_output(out.data());
    return out;
  };
  EXPECT_EQ(output(true, 1), output(false, 1));
  EXPECT_EQ(output(true, 2), output(false, 2)) << "a power of two changes no rounding";
}

struct ActivationCase {
  const char* name;
  double alpha, beta, limit, gate, up, want;
};

// One rule was wired in for all names; clamps were dropped or taken for each other.
TEST(BugLayers, N77_N79_N80_EachActivationIsItsOwn) {
  const double x = 0.7, u = 1.3;
  const std::vector<ActivationCase> cases = {
      {"silu", 0, 0, 0, x, u, x * logistic(x) * u},
      {"silu", 0, 0, 10, 50, -50, 10 * logistic(10) * -10},
      {"gelu", 0, 0, 0, x, u, x / 2 * (1 + std::erf(x / std::sqrt(2.0))) * u},
      {"gelu_tanh", 0, 0, 0, x, u,
       x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) * u},
      {"swigluoai", 1.702, 1, 7, 20, 20, 7 * logistic(1.702 * 7) * 8},
      {"swiglustep", 0, 0, 7, 20, 20, 49},
  };
  for (const ActivationCase& c : cases) {
    const fs::path folder =
        scalar_expert(static_cast<float>(c.gate), static_cast<float>(c.up), 1).save();
    Loaded loaded(folder, 4, [&](spec::Model& model) {
      model.layers.at(0).activation = {c.name, c.alpha, c.beta, c.limit};
    });
    const float got = loaded.forward({1})[0];
    EXPECT_NEAR(static_cast<double>(got), c.want, 1e-5 * std::fabs(c.want)) << c.name;
  }
}

// The gate's weight was loaded and not used.
TEST(BugLayers, N83_TheSigmoidGateOfSharedExpertsCounts) {
  Tiny tiny = olmoe({2, 1, 4, 3, 1});
  tiny.config["model_type"] = "qwen2_moe";
  tiny.config["moe_intermediate_size"] = 3;
  tiny.config["intermediate_size"] = 9;
  tiny.config["shared_expert_intermediate_size"] = 5;
  tiny.config["decoder_sparse_step"] = 1;
  tiny.config["mlp_only_layers"] = Json::array();
  add_mlp(tiny, "model.layers.0.mlp.shared_expert.", 4, 5);
  const std::string gate = "model.layers.0.mlp.shared_expert_gate.weight";
  const std::vector<float> row = {1, 1, 1, 1};
  const auto output = [&](std::vector<int64_t> shape, float value) {
    tiny.set(gate, std::move(shape), std::vector<float>(4, value));
    Loaded loaded(tiny);
    return loaded.forward(row);
  };
  const std::vector<float> off = output({1, 4}, -100), half = output({1, 4}, 0),
                           full = output({1, 4}, 100);
  EXPECT_EQ(output({4}, 0), half) << "a gate of one dimension means the same";
  for (size_t i = 0; i < 4; ++i) {
    const double shared = static_cast<double>(full[i]) - static_cast<double>(off[i]);
    EXPECT_GT(std::fabs(shared), 1e-3);
    EXPECT_NEAR(static_cast<double>(half[i]) - static_cast<double>(off[i]), shared / 2, 1e-5);
  }
}

// No tokens: a crash, or a message about a power of two.
TEST(BugLayers, N86_N88_NoTokens) {
  for (const int64_t experts : {4, 60}) {
    Loaded loaded(olmoe({experts, 2, 6, 5, 1}));
    EXPECT_TRUE(loaded.forward({}).empty());
    EXPECT_EQ(loaded.routing.tokens, 0);
    EXPECT_TRUE(loaded.routing.ids.empty());
  }
}

// A row's result is its own: alone, in a batch, with other threads.
TEST(BugLayers, BatchCompositionDoesNotMatter) {
  Loaded loaded(olmoe({8, 3, 6, 5, 1}));
  const std::vector<float> hidden = random_rows(17, 6, 17);
  const std::vector<float> all = loaded.forward(hidden);
  for (size_t t = 0; t < 17; ++t) {
    const auto begin = static_cast<ptrdiff_t>(t * 6);
    EXPECT_EQ(loaded.forward({hidden.begin() + begin, hidden.begin() + begin + 6}),
              std::vector<float>(all.begin() + begin, all.begin() + begin + 6));
  }
}

}  // namespace
}  // namespace moert::bugs
