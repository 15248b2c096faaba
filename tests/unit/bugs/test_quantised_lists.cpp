// Public bug reports about lists of modules that are not quantised. Tests are named after the reports.
// SPDX-License-Identifier: Apache-2.0
#include "quantised_layer.hpp"
#include "weights/targets.hpp"

namespace moert::bugs {
namespace {

constexpr Sizes kSizes{.experts = 3, .top_k = 2, .hidden = 32, .intermediate = 16, .layers = 3};

Json leaves_of_layer_2() {
  Json names = {"lm_head", "model.layers.2.mlp.gate"};
  for (int64_t e = 0; e < kSizes.experts; ++e)
    for (const char* part : {"gate_proj", "up_proj", "down_proj"})
      names.push_back(qwen3_expert(2, e) + part);
  return names;
}

struct ExcludeCase {
  const char* name;
  Json list;
  size_t warnings;
};
void PrintTo(const ExcludeCase& tested, std::ostream* out) { *out << tested.name; }

class ExcludedModules : public ::testing::TestWithParam<ExcludeCase> {};

// Layers 0 and 1 are FP8, layer 2 is bf16.
TEST_P(ExcludedModules, N46_ALayerOfFloatsRunsAndIsWarnedOfOnlyUnannounced) {
  Release release(qwen3(kSizes));
  release.config["quantization_config"] = fp8_config(16, 16);
  if (!GetParam().list.is_null())
    release.config["quantization_config"]["modules_to_not_convert"] = GetParam().list;
  std::vector<std::vector<QuantisedExpert>> layers;
  for (int64_t layer = 0; layer < 3; ++layer)
    layers.push_back(
        put_experts(kSizes, layer, [&](const std::string& module, int64_t rows, int64_t cols) {
          if (layer == 2) return release.bf16(module + ".weight", rows, cols);
          return release.fp8(module, rows, cols, {16, 16});
        }));
  Loaded loaded(release.save());
  const weights::Plan& plan = loaded.model().plan();
  ASSERT_EQ(plan.warnings.size(), GetParam().warnings)
      << (plan.warnings.empty() ? "" : plan.warnings[0]);
  if (!plan.warnings.empty()) {
    EXPECT_NE(plan.warnings[0].find("9 weights are bf16"), std::string::npos) << plan.warnings[0];
    EXPECT_NE(plan.warnings[0].find(qwen3_expert(2, 0)), std::string::npos) << plan.warnings[0];
  }
  EXPECT_EQ(plan.layers[2].scheme, "bf16");
  for (size_t layer = 0; layer < 3; ++layer)
    expect_layer(loaded, layers[layer], layer == 2 ? as_it_is : by_groups_of(16, false), layer);
}

INSTANTIATE_TEST_SUITE_P(
    BugLists, ExcludedModules,
    ::testing::Values(
        ExcludeCase{"every_leaf", leaves_of_layer_2(), 0},
        ExcludeCase{"a_parent", {"model.layers.2.mlp.experts"}, 0},
        ExcludeCase{"a_run_of_words", {"layers.2.mlp"}, 0},
        ExcludeCase{"a_parent_with_a_dot", {"model.layers.2."}, 0},
        ExcludeCase{"globs", {"model.layers.*.mlp.router", "model.layers.2.mlp.*"}, 0},
        ExcludeCase{"an_expression", {"re:model\\.layers\\.2\\.mlp\\.experts\\..*"}, 0},
        ExcludeCase{"an_expression_of_layers", {"re:.*layers\\.(2|7)\\.mlp"}, 0},
        ExcludeCase{"a_glob_of_routers_alone", {"model.layers.*.mlp.router"}, 1},
        ExcludeCase{"another_layer", {"model.layers.22.mlp", "layers.2.mlp.expert"}, 1},
        ExcludeCase{"nothing", Json::array(), 1}, ExcludeCase{"no_list", nullptr, 1}),
    [](const auto& tested) { return std::string(tested.param.name); });

// The list has leaves, the layer one tensor for all experts.
TEST(BugLists, N46_LeavesMeanTheTensorThatHoldsThemAll) {
  Release release(qwen3(kSizes));
  release.config["quantization_config"] = fp8_config(16, 16);
  release.config["quantization_config"]["modules_to_not_convert"] = leaves_of_layer_2();
  for (int64_t layer = 0; layer < 2; ++layer)
    put_experts(kSizes, layer, [&](const std::string& module, int64_t rows, int64_t cols) {
      return release.fp8(module, rows, cols, {16, 16});
    });
  release.edit.add("model.layers.2.mlp.experts.gate_up_proj", {3, 32, 32}, MOERT_DTYPE_BF16);
  release.edit.add("model.layers.2.mlp.experts.down_proj", {3, 32, 16}, MOERT_DTYPE_BF16);
  Loaded loaded(release.save());
  EXPECT_EQ(loaded.model().plan().layers[2].scheme, "bf16");
  EXPECT_EQ(loaded.model().plan().warnings, std::vector<std::string>{});
}

// In the file mtp.N.ffn, elsewhere layers.N.ffn: a list means what the file calls it.
TEST(BugLists, N48_TheDraftsSharedExpertIsNotTheModels) {
  const weights::Targets excluded({"mtp.0.ffn.shared_experts"}, "test");
  for (const char* fits : {"mtp.0.ffn.shared_experts", "mtp.0.ffn.shared_experts.w1",
                           "model.mtp.0.ffn.shared_experts"})
    EXPECT_TRUE(excluded.fit(fits)) << fits;
  for (const char* other : {"layers.0.ffn.shared_experts.w1", "mtp.1.ffn.shared_experts",
                            "mtp.0.ffn", "mtp.0.ffn.shared_experts_gate", "mtp.0.ffn.experts.0.w1"})
    EXPECT_FALSE(excluded.fit(other)) << other;
}

TEST(BugLists, N48_ADraftLayerInFloatsIsLeftOutWithoutAWarning) {
  Release release(qwen3({3, 2, 32, 16, 1}));
  release.config["model_type"] = "deepseek_v4";
  release.config["n_routed_experts"] = 3;
  release.config["n_shared_experts"] = 1;
  release.config["quantization_config"] = fp8_config(16, 16);
  release.config["quantization_config"]["modules_to_not_convert"] = {"mtp.0.ffn.shared_experts"};
  release.config.erase("num_experts");
  release.config["topk_method"] = "noaux_tc";
  release.edit.rename("model.layers.0.mlp.gate.weight", "layers.0.ffn.gate.weight");
  release.edit.add("layers.0.ffn.gate.bias", {3});
  const auto fp8 = [&](const std::string& module, int64_t rows, int64_t cols) {
    release.fp8(module, rows, cols, {16, 16, "scale"});
  };
  const auto expert = [&](const std::string& name) {
    fp8(name + ".w1", 16, 32);
    fp8(name + ".w3", 16, 32);
    fp8(name + ".w2", 32, 16);
  };
  for (const char* name : {"experts.0", "experts.1", "experts.2", "shared_experts"})
    expert(std::string("layers.0.ffn.") + name);
  const size_t used = release.edit.tensors.size();
  expert("mtp.0.ffn.experts.0");
  for (const char* name : {"w1", "w3", "w2"})
    release.bf16("mtp.0.ffn.shared_experts." + std::string(name) + ".weight", 16, 16);
  Loaded loaded(release.save());
  EXPECT_EQ(loaded.model().plan().used, used);
  EXPECT_EQ(loaded.model().plan().ignored, release.edit.tensors.size() - used);
  EXPECT_EQ(loaded.model().plan().warnings, std::vector<std::string>{});
}

}  // namespace
}  // namespace moert::bugs
