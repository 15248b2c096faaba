// Public bug reports about config keys, tried with the families that they were about.
// SPDX-License-Identifier: Apache-2.0
#include "captured.hpp"
#include "family_models.hpp"

namespace moert::bugs {
namespace {

// The capturer died on Gemma 4, which writes top_k_experts alone.
TEST(BugFamilyConfig, N1_Gemma4IsCapturedInItsOwnWidth) {
  const Tiny tiny = gemma4({8, 2, 6, 5, 3});
  ASSERT_FALSE(tiny.config.dump().find("num_experts_per_tok") != std::string::npos);
  Loaded loaded(tiny);
  EXPECT_EQ(captured_ids(loaded, 4), (std::vector<size_t>{4 * 2, 4 * 2, 4 * 2}));
}

// Dense siblings of a family with experts.
TEST(BugFamilyConfig, N3_AFamilysDenseModelIsDense) {
  Tiny tiny = gemma4({8, 2, 6, 5, 3});
  Json& text = tiny.config["text_config"];
  text["enable_moe_block"] = false;
  EXPECT_TRUE(families().resolve(tiny.save()).layers.empty()) << "the numbers are left over";
  for (const char* key : {"num_experts", "top_k_experts", "moe_intermediate_size"})
    text[key] = nullptr;
  EXPECT_TRUE(families().resolve(tiny.save()).layers.empty());
  Tiny other = granite({4, 2, 4, 3, 1});
  other.config["num_local_experts"] = 0;
  other.config["num_experts_per_tok"] = 0;
  EXPECT_TRUE(families().resolve(other.save()).layers.empty());
}

// ERNIE-4.5-300B has no shared experts, and its config does not speak of them.
TEST(BugFamilyConfig, N6_ErnieWithoutSharedExperts) {
  const Sizes s{4, 2, 6, 5, 1};
  for (const Json& count : {Json(), Json(0)}) {
    Tiny tiny;
    tiny.config = {{"model_type", "ernie4_5_moe"},
                   {"hidden_size", s.hidden},
                   {"moe_intermediate_size", s.intermediate},
                   {"num_hidden_layers", 1},
                   {"moe_num_experts", s.experts},
                   {"moe_k", s.top_k},
                   {"moe_layer_start_index", 0},
                   {"hidden_act", "silu"},
                   {"dtype", "float32"}};
    if (!count.is_null()) tiny.config["moe_num_shared_experts"] = count;
    add_experts(tiny, 0, s);
    tiny.random("model.layers.0.mlp.moe_statics.e_score_correction_bias", {1, s.experts});
    Loaded loaded(tiny);
    EXPECT_FALSE(loaded.spec().layers.at(0).shared.has_value());
  }
}

// The recorder had a k of 8 built in; LongCat has 12, and Hunyuan a list.
TEST(BugFamilyConfig, N7_TheWidthIsTheLayers) {
  Loaded twelve(longcat({16, 12, 6, 3, 1}, 4));
  EXPECT_EQ(captured_ids(twelve, 3), (std::vector<size_t>{3 * 12}));

  const Sizes s{4, 2, 6, 5, 3};
  Tiny tiny;
  tiny.config = {{"model_type", "hunyuan_v1_moe"},
                 {"hidden_size", s.hidden},
                 {"intermediate_size", s.intermediate},
                 {"num_hidden_layers", s.layers},
                 {"num_experts", s.experts},
                 {"moe_topk", {2, 3, 2}},
                 {"num_shared_expert", {1, 1, 1}},
                 {"hidden_act", "silu"},
                 {"dtype", "float32"}};
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    const std::string mlp = "model.layers." + std::to_string(layer) + ".mlp.";
    add_experts(tiny, layer, s);
    tiny.tensors[mlp + "gate.wg.weight"] = tiny.tensors.at(mlp + "gate.weight");
    tiny.tensors.erase(mlp + "gate.weight");
    add_mlp(tiny, mlp + "shared_mlp.", s.hidden, s.intermediate);
  }
  Loaded loaded(tiny);
  EXPECT_EQ(captured_ids(loaded, 5), (std::vector<size_t>{5 * 2, 5 * 3, 5 * 2}));
}

// One K3-like layer: situ under Kimi's names.
Tiny kimi(const Sizes& s) {
  Tiny tiny;
  tiny.config = {{"model_type", "kimi_linear"},
                 {"hidden_size", s.hidden},
                 {"intermediate_size", 9},
                 {"moe_intermediate_size", s.intermediate},
                 {"num_hidden_layers", 1},
                 {"num_experts", s.experts},
                 {"num_experts_per_token", s.top_k},
                 {"first_k_dense_replace", 0},
                 {"moe_layer_freq", 1},
                 {"use_grouped_topk", false},
                 {"routed_scaling_factor", 1.0},
                 {"hidden_act", "situ"},
                 {"activation_situ_beta", 3.0},
                 {"activation_situ_linear_beta", 2.0},
                 {"dtype", "float32"}};
  const std::string block = "model.layers.0.block_sparse_moe.";
  tiny.random(block + "gate.weight", {s.experts, s.hidden});
  tiny.set(block + "gate.e_score_correction_bias", {s.experts},
           std::vector<float>(static_cast<size_t>(s.experts), 0.0f));
  put_per_expert(tiny, block + "experts.", plain_experts(s), s.hidden, {"w1", "w3", "w2"});
  return tiny;
}

// A name that a family does not know ran as plain silu.
TEST(BugFamilyConfig, N82_UnknownFunctionsAreRefusedByNameInEveryFamily) {
  const Sizes s{4, 2, 4, 3, 1};
  std::vector<std::pair<Tiny, std::string>> models;  // and the part of the config that has the key
  for (const Tiny& tiny : {olmoe(s), block_sparse("mixtral", s), granite(s), longcat(s, 1)})
    models.emplace_back(tiny, "");
  models.emplace_back(qwen("qwen3_5_moe", s), "/text_config");
  put_stacked(models.back().first, "model.language_model.layers.0.mlp.experts.", plain_experts(s),
              s);
  for (auto& [tiny, place] : models) {
    Json& value = tiny.config[Json::json_pointer(place + "/hidden_act")];
    value = "glorp";
    const Error error = error_of([&] { families().resolve(tiny.save()); });
    EXPECT_EQ(error.fault(), Fault::usage);
    expect_text(error, {"'glorp'", "hidden_act"});
    value = "situ";  // is known, but these families give it no parameters
    const Error refused = error_of([&] { Loaded loaded(tiny); });
    EXPECT_EQ(refused.fault(), Fault::refused);
    expect_text(refused, {"situ"});
  }
}

TEST(BugFamilyConfig, N82_SituRunsWhereTheFamilyHasItsParameters) {
  const Sizes s{1, 1, 6, 5, 1};
  Loaded loaded(kimi(s));
  EXPECT_EQ(loaded.spec().layers.at(0).activation, (spec::Activation{"situ", 2, 3, 0}));
  const std::vector<float> row = random_rows(1, s.hidden, 3);
  const auto situ = [](double gate, double up) {
    return 3 * std::tanh(gate / 3) * sigmoid(gate) * 2 * std::tanh(up / 2);
  };
  // One expert of one: renormalised, its weight is 1.
  expect_rows(loaded.forward(row), output_of(plain_experts(s).front(), row.data(), s.hidden, situ),
              s.hidden);
}

// Router rows and bias of different lengths.
TEST(BugFamilyConfig, N92_TheBiasIsAsLongAsTheRouterWithItsZeroExperts) {
  const Sizes s{4, 2, 6, 5, 1};
  Tiny tiny = longcat(s, 2);
  Loaded fits(tiny);
  EXPECT_EQ(fits.spec().layers.at(0).routing.rows(), 6);
  fits.forward(random_rows(2, s.hidden, 3));
  const std::string bias = "model.layers.0.mlp.router.e_score_correction_bias";
  tiny.set(bias, {4}, std::vector<float>(4, 0.0f));
  const Error error = error_of([&] { Loaded loaded(tiny); });
  EXPECT_EQ(error.fault(), Fault::input);
  expect_text(error, {bias, "[4]", "[6]"});
}

}  // namespace
}  // namespace moert::bugs
