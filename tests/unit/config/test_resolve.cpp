// From config.json to a model: spellings, absence, per-layer lists, layer patterns, faults.
// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "config/config.hpp"
#include "unit/config/support.hpp"

namespace moert::config::test {
namespace {

using Json = nlohmann::json;

spec::Model resolve_text(const std::string& config) {
  const TempFolder folder;
  folder.write("config.json", config);
  return shipped().resolve(folder.path());
}

Json olmoe() {
  return Json::parse(
      R"({"model_type":"olmoe","hidden_act":"silu","hidden_size":64,"intermediate_size":32,
      "num_experts":8,"num_experts_per_tok":2,"num_hidden_layers":4,"norm_topk_prob":false})");
}
Json qwen() {
  return Json::parse(
      R"({"model_type":"qwen3_moe","hidden_act":"silu","hidden_size":64,"intermediate_size":999,
      "moe_intermediate_size":32,"num_experts":8,"num_experts_per_tok":2,"num_hidden_layers":6,"norm_topk_prob":true})");
}
Json deepseek() {
  return Json::parse(
      R"({"model_type":"deepseek_v3","hidden_act":"silu","hidden_size":64,"moe_intermediate_size":32,
      "n_routed_experts":16,"num_experts_per_tok":4,"num_hidden_layers":6,"norm_topk_prob":true,"n_group":4,
      "topk_group":2,"n_shared_experts":2,"first_k_dense_replace":2,"routed_scaling_factor":2.5})");
}
Json base_of(const std::string& family) {
  const std::map<std::string, const char*> others = {
      {"longcat", R"({"model_type":"longcat_flash","hidden_size":64,"num_layers":4,"moe_topk":3,
        "expert_ffn_hidden_size":16,"n_routed_experts":8,"zero_expert_num":4,"zero_expert_type":"identity"})"},
      {"jamba",
       R"({"model_type":"jamba","hidden_act":"silu","hidden_size":64,"intermediate_size":32,
        "num_experts":8,"num_experts_per_tok":2,"num_hidden_layers":6,"expert_layer_period":2,
        "expert_layer_offset":1})"},
      {"ernie",
       R"({"model_type":"ernie4_5_moe","hidden_size":64,"moe_intermediate_size":32,"moe_k":2,
        "moe_num_experts":8,"num_hidden_layers":6,"moe_layer_start_index":1,"moe_layer_end_index":-1,
        "moe_layer_interval":1})"},
      {"step3",
       R"({"model_type":"step3_text","hidden_size":64,"moe_intermediate_size":32,"moe_top_k":2,
        "moe_num_experts":8,"num_hidden_layers":6,"share_expert_dim":16,"moe_layers_enum":"1,3"})"},
      {"nemotron", R"({"model_type":"nemotron_h","hidden_size":64,"moe_intermediate_size":32,
        "n_routed_experts":8,"num_experts_per_tok":2,"num_hidden_layers":6,"norm_topk_prob":true,
        "hybrid_override_pattern":"MEM*-E","n_group":1,"topk_group":1,"routed_scaling_factor":1.0})"}};
  if (const auto found = others.find(family); found != others.end())
    return Json::parse(found->second);
  return family == "olmoe" ? olmoe() : family == "qwen" ? qwen() : deepseek();
}

// `patch` is merged into the family's config; a value "DELETE" takes the key out, since null is a value.
Json patched(const std::string& family, const char* patch) {
  Json config = base_of(family);
  const Json changes = Json::parse(patch);  // named: items() does not keep a temporary alive
  for (const auto& [key, value] : changes.items()) {
    if (value == "DELETE")
      config.erase(key);
    else
      config[key] = value;
  }
  return config;
}

spec::Model resolve(const std::string& family, const char* patch = "{}") {
  return resolve_text(patched(family, patch).dump());
}

std::vector<int64_t> ids(const spec::Model& model) {
  std::vector<int64_t> result;
  for (const spec::MoELayer& layer : model.layers) result.push_back(layer.layer_id);
  return result;
}

struct Pattern {
  const char* name;
  const char* family;
  const char* patch;
  std::vector<int64_t> moe;
};
void PrintTo(const Pattern& p, std::ostream* out) { *out << p.name; }

class LayerPatterns : public ::testing::TestWithParam<Pattern> {};

TEST_P(LayerPatterns, FollowTheConfig) {
  const spec::Model model = resolve(GetParam().family, GetParam().patch);
  EXPECT_EQ(ids(model), GetParam().moe);
  EXPECT_EQ(model.layers.size() + model.dense_layers.size(), static_cast<size_t>(model.num_layers));
}

INSTANTIATE_TEST_SUITE_P(
    Resolve, LayerPatterns,
    ::testing::Values(
        Pattern{"all", "olmoe", "{}", {0, 1, 2, 3}},
        Pattern{"first_dense", "deepseek", "{}", {2, 3, 4, 5}},
        Pattern{
            "first_dense_zero", "deepseek", R"({"first_k_dense_replace":0})", {0, 1, 2, 3, 4, 5}},
        Pattern{"first_dense_null",
                "deepseek",
                R"({"first_k_dense_replace":null})",
                {0, 1, 2, 3, 4, 5}},
        Pattern{"first_dense_all", "deepseek", R"({"first_k_dense_replace":6})", {}},
        Pattern{"freq", "deepseek", R"({"moe_layer_freq":2})", {2, 4}},
        Pattern{"freq_odd", "deepseek", R"({"moe_layer_freq":3,"first_k_dense_replace":1})", {3}},
        Pattern{"freq_list", "deepseek", R"({"moe_layer_freq":[1,1,0,1,0,1]})", {3, 5}},
        Pattern{"step", "qwen", R"({"decoder_sparse_step":2})", {1, 3, 5}},
        Pattern{"step_null",
                "qwen",
                R"({"decoder_sparse_step":null,"mlp_only_layers":null})",
                {0, 1, 2, 3, 4, 5}},
        Pattern{"listed", "qwen", R"({"mlp_only_layers":[0,5]})", {1, 2, 3, 4}},
        Pattern{
            "step_and_list", "qwen", R"({"decoder_sparse_step":2,"mlp_only_layers":[3]})", {1, 5}},
        Pattern{"period", "jamba", "{}", {1, 3, 5}},
        Pattern{"offset", "jamba", R"({"expert_layer_period":3,"expert_layer_offset":2})", {2, 5}},
        Pattern{"range", "ernie", "{}", {1, 2, 3, 4, 5}},
        Pattern{"range_end", "ernie", R"({"moe_layer_end_index":3})", {1, 2, 3}},
        Pattern{"interval", "ernie", R"({"moe_layer_interval":2})", {1, 3, 5}},
        Pattern{"text_list", "step3", "{}", {1, 3}},
        Pattern{"spaces", "step3", R"({"moe_layers_enum":" 2, 4 ,5 "})", {2, 4, 5}},
        Pattern{"number_list", "step3", R"({"moe_layers_enum":[0,5]})", {0, 5}},
        Pattern{"letters", "nemotron", "{}", {1, 5}},
        Pattern{"words",
                "nemotron",
                R"({"hybrid_override_pattern":"DELETE","num_hidden_layers":"DELETE",
                    "layers_block_type":["mamba","moe","attention"]})",
                {1}},
        Pattern{"other_familys_key", "olmoe", R"({"decoder_sparse_step":2})", {0, 1, 2, 3}}),
    case_name<Pattern>);

// Python's json writes words for numbers that JSON does not have.
TEST(Resolve, PythonsNumbersHurtOnlyWhoReadsThem) {
  const auto with = [](const std::string& entry) {
    std::string text = olmoe().dump();
    return resolve_text("{" + entry + "," + text.substr(1));
  };
  EXPECT_EQ(with(R"("time_step_limit":[0.0, Infinity],"x":-Infinity,"y":NaN,"z":"NaN \" Infinity")")
                .layers.size(),
            4u);
  expect_error(Fault::usage, {"routed_scaling_factor", "\"Infinity\""},
               [&] { with(R"("routed_scaling_factor": Infinity)"); });
}

TEST(Resolve, SpellingsOfOneQuantityAreTheSame) {
  for (const char* key : {"num_experts_per_token", "experts_per_token", "top_k_experts", "moe_topk",
                          "moe_top_k", "moe_k", "num_selected_experts", "n_activated_experts"}) {
    Json config = olmoe();
    config.erase("num_experts_per_tok");
    config[key] = 5;
    EXPECT_EQ(resolve_text(config.dump()).layers.front().routing.top_k, 5) << key;
  }
  for (const char* key : {"num_local_experts", "n_routed_experts", "moe_num_experts"}) {
    Json config = olmoe();
    config.erase("num_experts");
    config[key] = 5;
    EXPECT_EQ(resolve_text(config.dump()).layers.front().routing.num_experts, 5) << key;
  }
  EXPECT_EQ(resolve("olmoe", R"({"num_experts":null,"num_local_experts":5})")
                .layers.front()
                .routing.num_experts,
            5);
  EXPECT_EQ(resolve("olmoe", R"({"num_experts":0,"num_local_experts":5})")
                .layers.front()
                .routing.num_experts,
            5);
  EXPECT_EQ(resolve("olmoe", R"({"num_local_experts":8})").layers.front().routing.num_experts,
            8);  // they agree
}

TEST(Resolve, DtypeHasTwoKeys) {
  EXPECT_EQ(resolve("olmoe", R"({"dtype":"bfloat16"})").dtype, "bf16");
  EXPECT_EQ(resolve("olmoe", R"({"torch_dtype":"float32"})").dtype, "f32");
  EXPECT_EQ(resolve("olmoe", R"({"dtype":null})").dtype, "");
}

TEST(Resolve, ListsMeanPerLayer) {
  const spec::Model model = resolve(
      "qwen",
      R"({"num_experts_per_tok":[2,3,4,5,6,7],"num_experts":[8,8,8,8,16,16],"moe_intermediate_size":[1,2,3,4,5,6]})");
  ASSERT_EQ(model.layers.size(), 6u);
  for (int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(model.layers[static_cast<size_t>(i)].routing.top_k, i + 2);
    EXPECT_EQ(model.layers[static_cast<size_t>(i)].intermediate_size, i + 1);
  }
  EXPECT_EQ(model.layers[5].routing.num_experts, 16);
  EXPECT_EQ(model.origin.at("top_k"), "config.json: num_experts_per_tok (one for each layer)");
  // A dense layer's entry may say nothing.
  EXPECT_EQ(resolve("qwen", R"({"num_experts_per_tok":[0,3,3,3,3,null],"mlp_only_layers":[0,5]})")
                .layers.size(),
            4u);
}

TEST(Resolve, LanguageModelsPartComesFirst) {
  Json config = {{"model_type", "some_vlm"}, {"hidden_size", 7}, {"text_config", qwen()}};
  const spec::Model model = resolve_text(config.dump());
  EXPECT_EQ(model.hidden_size, 64);
  EXPECT_EQ(model.origin.at("hidden_size"), "config.json: text_config.hidden_size");
}

TEST(Resolve, SamplingSettingIsNoNumberOfExperts) {
  EXPECT_EQ(resolve("olmoe", R"({"top_k":50})").layers.front().routing.top_k, 2);
  expect_error(Fault::usage, {"nothing gives top_k", "num_experts_per_tok"},
               [] { resolve("olmoe", R"({"top_k":50,"num_experts_per_tok":"DELETE"})"); });
}

TEST(Resolve, NullScaleIsOneAndSharedExpertsMayBeAbsent) {
  EXPECT_EQ(
      resolve("deepseek", R"({"routed_scaling_factor":null})").layers.front().routing.routed_scale,
      1);
  EXPECT_EQ(
      resolve("deepseek", R"({"routed_scaling_factor":3})").layers.front().routing.routed_scale, 3);
  EXPECT_EQ(resolve("deepseek").layers.front().shared->intermediate_size, 64);
  for (const char* patch : {R"({"n_shared_experts":null})", R"({"n_shared_experts":0})",
                            R"({"n_shared_experts":"DELETE"})"})
    EXPECT_FALSE(resolve("deepseek", patch).layers.front().shared.has_value()) << patch;
}

TEST(Resolve, GroupsOfOneExpertAreTaken) {
  const spec::Routing r =
      resolve("deepseek", R"({"n_group":16,"topk_group":4})").layers.front().routing;
  EXPECT_EQ(r.num_groups, 16);
  EXPECT_EQ(r.group_score, "top2_sum");
}

TEST(Resolve, ManyExpertsAreTaken) {
  for (const int experts : {257, 896, 1025, 65'537}) {
    Json config = olmoe();
    config["num_experts"] = experts;
    config["num_experts_per_tok"] = 16;
    EXPECT_EQ(resolve_text(config.dump()).layers.front().routing.num_experts, experts);
  }
}

TEST(Resolve, QuantisedConfigsStillResolve) {
  const auto method = [](const char* change) {
    const spec::Model model = resolve("olmoe", change);
    EXPECT_EQ(model.layers.front().scheme, "") << "is the model file's";
    return model.quantization ? model.quantization->method : "";
  };
  EXPECT_EQ(method(R"({"quantization_config":{"quant_method":"awq"}})"), "awq");
  EXPECT_EQ(method(R"({"quantization_config":{"bits":4}})"), "unknown");
  EXPECT_EQ(method(R"({"quantization_config":null})"), "");
}

TEST(Resolve, ActivationNamesAreTranslated) {
  EXPECT_EQ(
      resolve("olmoe", R"({"hidden_act":"gelu_pytorch_tanh"})").layers.front().activation.name,
      "gelu_tanh");
  EXPECT_EQ(resolve("olmoe", R"({"hidden_act":"situ"})").layers.front().activation.name, "situ");
  EXPECT_EQ(resolve("olmoe", R"({"swiglu_limit":7.0})").layers.front().activation.limit, 7);
}

TEST(Resolve, DenseModelsHaveNoLayers) {
  const spec::Model plain = resolve_text(
      R"({"model_type":"llama","hidden_size":64,"num_hidden_layers":3,"intermediate_size":256})");
  EXPECT_TRUE(plain.layers.empty());
  EXPECT_EQ(plain.dense_layers, (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(plain.family, "");
  const spec::Model null = resolve_text(
      R"({"model_type":"gemma4","text_config":{"model_type":"gemma4_text","num_experts":null,"top_k_experts":null,
      "expert_intermediate_size":null,"enable_moe_block":false,"hidden_size":5376,"num_hidden_layers":60}})");
  EXPECT_TRUE(null.layers.empty());
  EXPECT_EQ(null.hidden_size, 5376);
  EXPECT_TRUE(resolve_text(R"({"model_type":"gpt2","n_embd":64})").layers.empty());
  EXPECT_TRUE(
      resolve_text(
          R"({"model_type":"olmoe","num_experts":0,"hidden_size":64,"num_hidden_layers":2})")
          .layers.empty());
}

struct ConfigFault {
  const char* name;
  const char* family;
  const char* patch;
  std::vector<std::string> parts;
};
void PrintTo(const ConfigFault& f, std::ostream* out) { *out << f.name; }

class ConfigFaults : public ::testing::TestWithParam<ConfigFault> {};

TEST_P(ConfigFaults, NameTheValueAndTheFile) {
  std::vector<std::string> parts = GetParam().parts;
  parts.emplace_back("config.json");
  expect_error(Fault::usage, parts, [] { resolve(GetParam().family, GetParam().patch); });
}

INSTANTIATE_TEST_SUITE_P(
    Resolve, ConfigFaults,
    ::testing::Values(
        ConfigFault{"no_experts",
                    "olmoe",
                    R"({"num_experts":"DELETE"})",
                    {"nothing gives num_experts", "num_local_experts", "n_routed_experts",
                     "family 'olmoe'"}},
        ConfigFault{"null_width",
                    "qwen",
                    R"({"moe_intermediate_size":null})",
                    {"nothing gives intermediate_size", "moe_intermediate_size"}},
        ConfigFault{"disagree",
                    "olmoe",
                    R"({"num_local_experts":16})",
                    {"num_experts has two values", "num_experts is 8", "num_local_experts is 16"}},
        ConfigFault{"text",
                    "olmoe",
                    R"({"num_experts":"64"})",
                    {"num_experts is \"64\" (string)", "whole number"}},
        ConfigFault{"fraction", "olmoe", R"({"num_experts":8.5})", {"8.5", "whole number"}},
        ConfigFault{
            "negative", "olmoe", R"({"num_experts":-8})", {"num_experts is -8", "expected 1 to"}},
        ConfigFault{"huge",
                    "olmoe",
                    R"({"num_experts":18446744073709551615})",
                    {"18446744073709551615", "expected 1 to"}},
        ConfigFault{"many_layers",
                    "olmoe",
                    R"({"num_hidden_layers":1000000000})",
                    {"num_hidden_layers (num_layers) is 1000000000", "1 to 10000"}},
        ConfigFault{"bool",
                    "olmoe",
                    R"({"norm_topk_prob":1})",
                    {"norm_topk_prob (renormalize) is 1", "true or false"}},
        ConfigFault{"top_k_above",
                    "olmoe",
                    R"({"num_experts_per_tok":9})",
                    {"top_k 9 is above num_experts 8"}},
        ConfigFault{"activation",
                    "olmoe",
                    R"({"hidden_act":"quick_gelu"})",
                    {"hidden_act is 'quick_gelu'", "silu"}},
        ConfigFault{"scoring",
                    "deepseek",
                    R"({"scoring_func":"softmin"})",
                    {"'softmin'", "sigmoid, softmax"}},
        ConfigFault{"method",
                    "deepseek",
                    R"({"topk_method":"group_limited_greedy"})",
                    {"'group_limited_greedy'", "noaux_tc"}},
        ConfigFault{"list_length",
                    "qwen",
                    R"({"num_experts_per_tok":[2,2]})",
                    {"num_experts_per_tok (top_k) is a list of 2 entries", "6 layers"}},
        ConfigFault{"list_gap",
                    "qwen",
                    R"({"num_experts_per_tok":[2,2,0,2,2,2]})",
                    {"num_experts_per_tok (top_k) has no value for layer 2"}},
        ConfigFault{
            "list_text", "qwen", R"({"num_experts_per_tok":[2,2,"x",2,2,2]})", {"\"x\" (string)"}},
        ConfigFault{
            "groups_uneven", "deepseek", R"({"n_group":3})", {"num_experts 16", "num_groups 3"}},
        ConfigFault{
            "groups_top", "deepseek", R"({"topk_group":5})", {"top_groups 5", "num_groups 4"}},
        ConfigFault{"groups_few",
                    "deepseek",
                    R"({"num_experts_per_tok":9})",
                    {"top_k 9", "top_groups 2 groups of 4"}},
        ConfigFault{"groups_absent",
                    "deepseek",
                    R"({"n_group":null})",
                    {"nothing gives num_groups", "n_group"}},
        ConfigFault{"freq_length",
                    "deepseek",
                    R"({"moe_layer_freq":[1,1]})",
                    {"moe_layer_freq (layer_freq) is a list of 2", "6 layers"}},
        ConfigFault{"freq_entry", "deepseek", R"({"moe_layer_freq":[1,1,2,1,1,1]})", {"entry 2"}},
        ConfigFault{"freq_negative",
                    "deepseek",
                    R"({"moe_layer_freq":-1})",
                    {"moe_layer_freq (layer_freq) is -1"}},
        ConfigFault{"step_text", "qwen", R"({"decoder_sparse_step":"1"})", {"sparse_step"}},
        ConfigFault{
            "list_beyond", "qwen", R"({"mlp_only_layers":[6]})", {"entry 6", "no layer below 6"}},
        ConfigFault{"list_negative", "qwen", R"({"mlp_only_layers":[-1]})", {"entry -1"}},
        ConfigFault{"zero_scale",
                    "deepseek",
                    R"({"routed_scaling_factor":0})",
                    {"routed_scale", "above 0"}},
        ConfigFault{"scale_text",
                    "deepseek",
                    R"({"routed_scaling_factor":"2.5"})",
                    {"routed_scale", "a number"}},
        ConfigFault{"conflict",
                    "olmoe",
                    R"({"architectures":["MixtralForCausalLM"]})",
                    {"'olmoe'", "'mixtral'"}},
        ConfigFault{
            "unknown_family",
            "olmoe",
            R"({"model_type":"nomoe"})",
            {"model_type 'nomoe'", "nothing gives intermediate_size", "known families are: "}},
        ConfigFault{"no_family", "olmoe", R"({"model_type":"DELETE"})", {"gives no model_type"}},
        ConfigFault{
            "unheard_of_key",
            "olmoe",
            R"({"model_type":"x","num_experts":"DELETE","num_experts_per_tok":"DELETE","expert_banks":4})",
            {"speaks of experts"}},
        ConfigFault{
            "text_list", "step3", R"({"moe_layers_enum":"1,x"})", {"moe_layers_enum", "'x'"}},
        ConfigFault{"text_list_beyond",
                    "step3",
                    R"({"moe_layers_enum":"1,6"})",
                    {"moe_layers_enum", "below 6"}},
        ConfigFault{
            "no_list", "step3", R"({"moe_layers_enum":null})", {"moe_list", "moe_layers_enum"}},
        ConfigFault{"letter",
                    "nemotron",
                    R"({"hybrid_override_pattern":"MEMXEE"})",
                    {"hybrid_override_pattern", "'X'"}},
        ConfigFault{"letters_length",
                    "nemotron",
                    R"({"hybrid_override_pattern":"ME"})",
                    {"2 entries", "6 layers"}},
        ConfigFault{
            "offset", "jamba", R"({"expert_layer_offset":2})", {"expert_layer_offset", "2"}},
        ConfigFault{"infinite_scale",
                    "deepseek",
                    R"({"routed_scaling_factor":"+inf"})",
                    {"routed_scaling_factor", "expected a number"}},
        ConfigFault{"zero_experts_kind",
                    "longcat",
                    R"({"zero_expert_type":"copy"})",
                    {"zero_expert_type is 'copy'", "identity"}}),
    case_name<ConfigFault>);

struct Damage {
  const char* name;
  std::string text;
  std::vector<std::string> parts;
};
void PrintTo(const Damage& d, std::ostream* out) { *out << d.name; }

class DamagedConfigs : public ::testing::TestWithParam<Damage> {};

TEST_P(DamagedConfigs, AreInputFaults) {
  expect_error(Fault::input, GetParam().parts, [] { resolve_text(GetParam().text); });
}

INSTANTIATE_TEST_SUITE_P(
    Resolve, DamagedConfigs,
    ::testing::Values(
        Damage{"empty", "", {"config.json"}},
        Damage{"cut", "{\"num_experts\": 8", {"config.json:1:"}},
        Damage{"list", "[]", {"array, expected an object"}},
        Damage{"duplicate",
               "{\"num_experts\": 8,\n \"num_experts\": 9}",
               {"'num_experts' stands twice"}},
        Damage{"nested_duplicate", "{\"a\": {\"b\": 1, \"b\": 1}}", {"'b' stands twice"}},
        Damage{"overflow", "{\"a\": 1e999}", {"1e999", "range"}},
        Damage{"comment", "{ // no\n}", {"config.json:1:"}},
        Damage{"deep", std::string(100'000, '['), {"deeper than 64"}},
        Damage{"deep_objects",
               [] {
                 std::string text;
                 for (int i = 0; i < 10'000; ++i) text += "{\"a\":";
                 return text;
               }(),
               {"deeper than 64"}},
        Damage{"not_utf8", "{\"a\": \"\xff\"}", {"config.json:1:"}},
        Damage{"too_long", "{\"a\": \"" + std::string(5u << 20, 'x') + "\"}", {"bytes"}}),
    case_name<Damage>);

TEST(Resolve, MissingFileIsAnInputFault) {
  const TempFolder folder;
  expect_error(Fault::input, {(folder.path() / "config.json").string()},
               [&] { shipped().resolve(folder.path()); });
}

}  // namespace
}  // namespace moert::config::test
