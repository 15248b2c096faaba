// quantization_config in the words of those who write it -> what is announced; and values that make no sense.
// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "config/config.hpp"
#include "unit/config/support.hpp"

namespace moert::config::test {
namespace {

using Json = nlohmann::json;

Json quantised_olmoe() {
  return {{"model_type", "olmoe"},   {"hidden_act", "silu"},   {"hidden_size", 64},
          {"intermediate_size", 32}, {"num_experts", 8},       {"num_experts_per_tok", 2},
          {"num_hidden_layers", 2},  {"norm_topk_prob", false}};
}

// The groups as lines "kind blocks activations global zeros <- targets"; '-' is not said.
std::string text_of(const std::optional<spec::Quantization>& q) {
  if (!q) return "nothing";
  std::string text = q->method;
  for (const spec::FormatGroup& group : q->groups) {
    text += "\n";
    for (const std::string* word :
         {&group.format.kind, &group.format.blocks, &group.format.activations, &group.format.global,
          &group.format.zeros})
      text += (word->empty() ? "-" : *word) + " ";
    if (!group.format.column_groups.empty()) text += "columns " + group.format.column_groups + " ";
    text += "<-";
    for (const std::string& target : group.targets) text += " " + target;
  }
  for (const std::string& name : q->excluded) text += "\nnot " + name;
  return text;
}

std::optional<spec::Quantization> announced(const Json& section,
                                            const std::string& key = "quantization_config") {
  const TempFolder folder;
  Json config = quantised_olmoe();
  config[key] = section;
  folder.write("config.json", config.dump());
  return shipped().resolve(folder.path()).quantization;
}

struct Case {
  const char* name;
  const char* section;
  const char* want;
};
void PrintTo(const Case& tested, std::ostream* out) { *out << tested.name; }

class Quantizations : public ::testing::TestWithParam<Case> {};

TEST_P(Quantizations, AreRead) {
  EXPECT_EQ(text_of(announced(Json::parse(GetParam().section))), GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    OwnWords, Quantizations,
    ::testing::Values(
        Case{"nothing", "{}", "nothing"}, Case{"null", "null", "nothing"},
        Case{
            "deepseek",
            R"({"quant_method":"fp8","fmt":"e4m3","activation_scheme":"dynamic","weight_block_size":[128,128]})",
            "fp8\nfp8 block128x128 group128 multiply - <-"},
        Case{"deepseek_exponents",
             R"({"quant_method":"fp8","weight_block_size":[128,128],"scale_fmt":"ue8m0"})",
             "fp8\nfp8 block128x128 group128_ue8m0 multiply - <-"},
        Case{"fp8_of_rows", R"({"quant_method":"fp8","activation_scheme":"dynamic"})",
             "fp8\nfp8 - token multiply - <-"},
        Case{"fp8_static", R"({"quant_method":"fp8","activation_scheme":"static"})",
             "fp8\nfp8 - static multiply - <-"},
        Case{
            "fp8_lists",
            R"({"quant_method":"fp8","modules_to_not_convert":["lm_head",""],"ignored_layers":["a"],"ignore":["b"]})",
            "fp8\nfp8 - token multiply - <-\nnot b\nnot lm_head\nnot a"},
        Case{
            "fbgemm",
            R"({"quant_method":"fbgemm_fp8","modules_to_not_convert":["x"],"activation_scale_ub":1200.0})",
            "fbgemm_fp8\nfp8 channel token multiply - <-\nnot x"},
        Case{"gpt_oss",
             R"({"quant_method":"mxfp4","modules_to_not_convert":["model.layers.*.self_attn"]})",
             "mxfp4\nmxfp4 g32 none - - <-\nnot model.layers.*.self_attn"},
        Case{"mxfp8", R"({"quant_method":"mxfp8"})", "mxfp8\nmxfp8 g32 mxfp8 - - <-"},
        Case{
            "awq",
            R"({"quant_method":"awq","bits":4,"group_size":64,"version":"gemm","zero_point":true})",
            "awq\nint4_awq g64 none - stored <-"},
        Case{"awq_symmetric", R"({"quant_method":"awq","bits":4,"zero_point":false})",
             "awq\nint4_awq g128 none - none <-"},
        Case{"awq_of_rows", R"({"quant_method":"awq","bits":4,"group_size":-1})",
             "awq\nint4_awq channel none - stored <-"},
        Case{"awq_in_another_order", R"({"quant_method":"awq","bits":4,"version":"gemv"})",
             "awq\nawq_4gemv - - - - <-"},
        Case{"gptq",
             R"({"quant_method":"gptq","bits":4,"group_size":128,"desc_act":true,"sym":true})",
             "gptq\nint4_gptq g128 none - plus_one columns stored <-"},
        Case{"gptq_v2", R"({"quant_method":"gptq","bits":4,"checkpoint_format":"gptq_v2"})",
             "gptq\nint4_gptq g128 none - stored <-"},
        Case{"gptq_of_eight", R"({"quant_method":"gptq","bits":8})", "gptq\ngptq_8 - - - - <-"},
        Case{"unknown", R"({"quant_method":"quanto","bits":3})", "quanto\nquanto_3 - - - - <-"},
        Case{"nameless", R"({"weights":"int7"})", "unknown\nunknown - - - - <-"}),
    case_name<Case>);

INSTANTIATE_TEST_SUITE_P(
    CompressedTensors, Quantizations,
    ::testing::Values(
        Case{
            "fp8_dynamic",
            R"({"quant_method":"compressed-tensors","format":"float-quantized","ignore":["lm_head"],"config_groups":
             {"group_0":{"targets":["Linear"],"weights":{"num_bits":8,"type":"float","strategy":"channel","group_size":null},
             "input_activations":{"num_bits":8,"type":"float","strategy":"token","dynamic":true}}}})",
            "compressed-tensors\nfp8 channel token divide - <-\nnot lm_head"},
        Case{"fp8_static",
             R"({"quant_method":"compressed-tensors","config_groups":{"g":{"targets":["Linear"],
             "weights":{"num_bits":8,"type":"float","strategy":"tensor"},
             "input_activations":{"num_bits":8,"type":"float","strategy":"tensor","dynamic":false}}}})",
             "compressed-tensors\nfp8 tensor static divide - <-"},
        Case{"fp8_blocks",
             R"({"quant_method":"compressed-tensors","config_groups":{"g":{"targets":["Linear"],
             "weights":{"num_bits":8,"type":"float","strategy":"block","block_structure":[128,128]},
             "input_activations":{"num_bits":8,"type":"float","strategy":"group","group_size":128,"dynamic":true}}}})",
             "compressed-tensors\nfp8 block128x128 group128 divide - <-"},
        Case{"blocks_as_a_word",
             R"({"quant_method":"compressed-tensors","config_groups":{"g":{"targets":[],
             "weights":{"num_bits":8,"type":"float","strategy":"block","block_structure":"128x64"}}}})",
             "compressed-tensors\nfp8 block128x64 none divide - <-"},
        Case{
            "int8",
            R"({"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"g":{"targets":["Linear"],
             "weights":{"num_bits":8,"type":"int","strategy":"channel"},
             "input_activations":{"num_bits":8,"type":"int","strategy":"token","dynamic":true}}}})",
            "compressed-tensors\nint8 channel token divide - <-"},
        Case{
            "int4",
            R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"g":{"targets":["Linear"],
             "weights":{"num_bits":4,"type":"int","strategy":"group","group_size":32,"symmetric":true},"input_activations":null}}})",
            "compressed-tensors\nint4_packed g32 none divide none <-"},
        Case{
            "int4_with_zeros",
            R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"g":{"targets":["Linear"],
             "weights":{"num_bits":4,"type":"int","strategy":"group","group_size":128,"symmetric":false}}}})",
            "compressed-tensors\nint4_packed g128 none divide stored <-"},
        Case{
            "int4_reordered",
            R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"g":{"targets":["Linear"],
             "weights":{"num_bits":4,"type":"int","strategy":"group","group_size":32,"actorder":"group"}}}})",
            "compressed-tensors\nint4_packed g32 none divide none columns stored <-"},
        Case{
            "int4_reordered_before",
            R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"g":{"targets":["Linear"],
             "weights":{"num_bits":4,"type":"int","strategy":"group","group_size":32,"actorder":"weight"}}}})",
            "compressed-tensors\nint4_packed g32 none divide none <-"},
        Case{"narrow_blocks", R"({"quant_method":"fp8","weight_block_size":[64,32]})",
             "fp8\nfp8 block64x32 group32 multiply - <-"},
        Case{"narrow_groups",
             R"({"quant_method":"compressed-tensors","config_groups":{"g":{"targets":["Linear"],
             "weights":{"num_bits":8,"type":"float","strategy":"block","block_structure":[64,64]},
             "input_activations":{"num_bits":8,"type":"float","strategy":"group","group_size":64,"dynamic":true}}}})",
             "compressed-tensors\nfp8 block64x64 group64 divide - <-"},
        Case{"rows_of_another_type",
             R"({"quant_method":"compressed-tensors","config_groups":{"g":{"targets":["Linear"],
             "weights":{"num_bits":8,"type":"float","strategy":"channel"},
             "input_activations":{"num_bits":8,"type":"int","strategy":"token","dynamic":true}}}})",
             "compressed-tensors\nfp8 channel int8 divide - <-"},
        Case{
            "int8_packed_in_words",
            R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"g":{"targets":["Linear"],
             "weights":{"num_bits":8,"type":"int","strategy":"channel"}}}})",
            "compressed-tensors\nint8_pack-quantized channel none divide - <-"},
        Case{
            "nvfp4",
            R"({"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized","config_groups":{"g":{"targets":["Linear"],
             "weights":{"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16},
             "input_activations":{"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16,"dynamic":"local"}}}})",
            "compressed-tensors\nnvfp4 g16 nvfp4 divide - <-"},
        Case{"mxfp4",
             R"({"quant_method":"compressed-tensors","config_groups":{"g":{"targets":["Linear"],
             "weights":{"num_bits":4,"type":"float","strategy":"group","group_size":32}}}})",
             "compressed-tensors\nmxfp4 g32 none divide - <-"},
        Case{"names_before_classes",
             R"({"quant_method":"compressed-tensors","config_groups":{
             "a":{"targets":["Linear"],"weights":{"num_bits":8,"type":"float","strategy":"channel"}},
             "b":{"targets":["re:.*experts.*"],"weights":{"num_bits":4,"type":"float","group_size":16}},
             "c":{"targets":["model.layers.1"]}}})",
             "compressed-tensors\nnvfp4 g16 none divide - <- re:.*experts.*\nnone - - - - <- "
             "model.layers.1"
             "\nfp8 channel none divide - <-"},
        Case{
            "unknown_bits",
            R"({"quant_method":"compressed-tensors","format":"odd","config_groups":{"g":{"targets":["Linear"],
             "weights":{"num_bits":3,"type":"int","strategy":"group","group_size":64}}}})",
            "compressed-tensors\nint3_odd g64 none divide - <-"}),
    case_name<Case>);

INSTANTIATE_TEST_SUITE_P(
    ModelOpt, Quantizations,
    ::testing::Values(
        Case{"flat_fp8",
             R"({"quant_method":"modelopt","quant_algo":"FP8","exclude_modules":["lm_head"]})",
             "modelopt\nfp8 tensor static multiply - <-\nnot lm_head"},
        Case{"flat_nvfp4", R"({"quant_algo":"NVFP4","group_size":16})",
             "modelopt\nnvfp4 g16 nvfp4 multiply - <-"},
        Case{"flat_of_weights_alone", R"({"quant_algo":"W4A16_NVFP4"})",
             "modelopt\nnvfp4 g16 none multiply - <-"},
        Case{"flat_blocks", R"({"quant_algo":"FP8_PB_WO"})",
             "modelopt\nfp8 block128x128 none multiply - <-"},
        Case{"flat_unknown", R"({"quant_algo":"W3A3","group_size":64})",
             "modelopt\nW3A3 g64 - - - <-"},
        Case{
            "groups",
            R"({"quant_method":"modelopt","quant_algo":"NVFP4","ignore":["a"],"config_groups":{"group_0":{"targets":["Linear"],
             "weights":{"dynamic":false,"num_bits":4,"type":"float","group_size":16},
             "input_activations":{"dynamic":false,"num_bits":4,"type":"float","group_size":16}}}})",
            "modelopt\nnvfp4 g16 nvfp4 multiply - <-\nnot a"},
        Case{"layers_of_their_own",
             R"({"quant_method":"modelopt","quant_algo":"FP8","quantized_layers":{
             "l.0":{"quant_algo":"NVFP4","group_size":16},"l.1":{"quant_algo":"FP8"},"l.2":{"quant_algo":"NVFP4","group_size":16}}})",
             "modelopt\nnvfp4 g16 nvfp4 multiply - <- l.0 l.2\nfp8 tensor static multiply - <- l.1"
             "\nfp8 tensor static multiply - <-"},
        Case{"without_an_algorithm", R"({"quant_method":"modelopt"})",
             "modelopt\nunknown - - - - <-"},
        Case{"layers_without_an_algorithm",
             R"({"quant_method":"modelopt","quant_algo":"FP8","quantized_layers":{"a":{}}})",
             "modelopt\nunknown - - - - <- a\nfp8 tensor static multiply - <-"},
        Case{"experts_of_their_own", R"({"quant_method":"fp8","moe_quant_algo":"NVFP4"})",
             "fp8\nnvfp4 g16 nvfp4 multiply - <- experts\nfp8 - token multiply - <-"}),
    case_name<Case>);

class WrongTypes : public ::testing::TestWithParam<Case> {};

TEST_P(WrongTypes, AreRefusedWithKeyValueAndExpectation) {
  expect_error(Fault::usage, {"quantization_config" + std::string(GetParam().want), "config.json"},
               [] { announced(Json::parse(GetParam().section)); });
}

#define CT(weights) \
  R"({"quant_method":"compressed-tensors","config_groups":{"g":{"weights":{)" weights R"(}}}})"

INSTANTIATE_TEST_SUITE_P(
    Quantization, WrongTypes,
    ::testing::Values(
        Case{"section", "[1]", " is [1], expected an object"},
        Case{"word", R"({"quant_method":8})", ".quant_method is 8, expected a word"},
        Case{"list", R"({"quant_method":"fp8","ignore":"a"})",
             R"(.ignore is "a", expected a list of names)"},
        Case{"list_item", R"({"quant_method":"fp8","ignored_layers":["a",3]})",
             ".ignored_layers is 3, expected a list of names"},
        Case{"excluded", R"({"quant_method":"modelopt","exclude_modules":{"a":1}})",
             R"(.exclude_modules is {"a":1}, expected a list of names)"},
        Case{"block", R"({"quant_method":"fp8","weight_block_size":128})",
             ".weight_block_size is 128, expected two sizes, rows and columns"},
        Case{"block_of_one", R"({"quant_method":"fp8","weight_block_size":[128]})",
             ".weight_block_size is [128]"},
        Case{"block_of_none", R"({"quant_method":"fp8","weight_block_size":[0,128]})",
             ".weight_block_size is [0,128]"},
        Case{"block_too_large", R"({"quant_method":"fp8","weight_block_size":[128,1099511627776]})",
             ".weight_block_size is [128,1099511627776]"},
        Case{"block_of_words", R"({"quant_method":"fp8","weight_block_size":["128","128"]})",
             ".weight_block_size is"},
        Case{"activation_scheme", R"({"quant_method":"fp8","activation_scheme":false})",
             ".activation_scheme is false, expected a word"},
        Case{"scale_fmt", R"({"quant_method":"fp8","weight_block_size":[1,1],"scale_fmt":[]})",
             ".scale_fmt is []"},
        Case{"bits", R"({"quant_method":"awq","bits":"4"})",
             R"(.bits is "4", expected a whole number)"},
        Case{"bits_in_parts", R"({"quant_method":"awq","bits":4.5})",
             ".bits is 4.5, expected a whole number"},
        Case{"group_size", R"({"quant_method":"gptq","group_size":-2})",
             ".group_size is -2, expected a number up to 65536"},
        Case{"group_size_too_large", R"({"quant_method":"gptq","group_size":65537})",
             ".group_size is 65537"},
        Case{"group_size_that_wraps",
             R"({"quant_method":"gptq","group_size":18446744073709551615})",
             ".group_size is 18446744073709551615"},
        Case{"zero_point", R"({"quant_method":"awq","zero_point":1})",
             ".zero_point is 1, expected true or false"},
        Case{"version", R"({"quant_method":"awq","version":1})", ".version is 1, expected a word"},
        Case{"checkpoint_format", R"({"quant_method":"gptq","checkpoint_format":2})",
             ".checkpoint_format is 2"},
        Case{"quant_algo", R"({"quant_method":"modelopt","quant_algo":["FP8"]})",
             R"(.quant_algo is ["FP8"])"},
        Case{"moe_quant_algo", R"({"quant_method":"fp8","moe_quant_algo":1})",
             ".moe_quant_algo is 1"},
        Case{"layers", R"({"quant_method":"modelopt","quantized_layers":["a"]})",
             R"(.quantized_layers is ["a"], expected an object)"},
        Case{"layer", R"({"quant_method":"modelopt","quantized_layers":{"a":"FP8"}})",
             R"(.quantized_layers.a is "FP8", expected an object)"},
        Case{"groups", R"({"quant_method":"compressed-tensors","config_groups":[]})",
             ".config_groups is [], expected an object"},
        Case{"group", R"({"quant_method":"compressed-tensors","config_groups":{"g":4}})",
             ".config_groups.g is 4, expected an object"},
        Case{"weights",
             R"({"quant_method":"compressed-tensors","config_groups":{"g":{"weights":"int4"}}})",
             R"(.config_groups.g.weights is "int4", expected an object)"},
        Case{"targets",
             R"({"quant_method":"compressed-tensors","config_groups":{"g":{"targets":"Linear"}}})",
             R"(.config_groups.g.targets is "Linear")"},
        Case{"format",
             R"({"quant_method":"compressed-tensors","format":1,"config_groups":{"g":{}}})",
             ".format is 1"},
        Case{"num_bits", CT(R"("num_bits":"8")"), R"(.config_groups.g.weights.num_bits is "8")"},
        Case{"type", CT(R"("num_bits":8,"type":8)"), ".config_groups.g.weights.type is 8"},
        Case{"strategy", CT(R"("num_bits":8,"type":"float","strategy":1)"),
             ".config_groups.g.weights.strategy is 1"},
        Case{"structure",
             CT(R"("num_bits":8,"type":"float","strategy":"block","block_structure":[1,2,3])"),
             ".config_groups.g.weights.block_structure is [1,2,3]"},
        Case{"symmetric", CT(R"("num_bits":4,"type":"int","symmetric":1)"),
             ".config_groups.g.weights.symmetric is 1"},
        Case{
            "activations",
            R"({"quant_method":"compressed-tensors","config_groups":{"g":{"weights":{"num_bits":8,"type":"float"},
             "input_activations":true}}})",
            ".config_groups.g.input_activations is true, expected an object"},
        Case{
            "dynamic",
            R"({"quant_method":"compressed-tensors","config_groups":{"g":{"weights":{"num_bits":8,"type":"float"},
             "input_activations":{"num_bits":8,"dynamic":1}}}})",
            ".config_groups.g.input_activations.dynamic is 1"}),
    case_name<Case>);

TEST(Quantization, CompressionConfigIsTheOlderNameOfTheSection) {
  EXPECT_EQ(text_of(announced({{"quant_method", "fp8"}}, "compression_config")),
            "fp8\nfp8 - token multiply - <-");
}

TEST(Quantization, TheSectionMayBeTheLanguageModelsOwn) {
  const TempFolder folder;
  Json text = {{"model_type", "qwen3_5_moe_text"},
               {"hidden_size", 64},
               {"num_hidden_layers", 2},
               {"moe_intermediate_size", 32},
               {"num_experts", 8},
               {"num_experts_per_tok", 2},
               {"hidden_act", "silu"}};
  text["quantization_config"] = {{"quant_method", "mxfp4"}};
  Json config = {{"model_type", "qwen3_5_moe"}, {"text_config", text}};
  folder.write("config.json", config.dump());
  EXPECT_EQ(text_of(shipped().resolve(folder.path()).quantization), "mxfp4\nmxfp4 g32 none - - <-");
}

// DeepSeek-V4 has a word for the routed experts alone.
TEST(Quantization, AWordForTheExpertsWins) {
  const Json fp8 = {
      {"quant_method", "fp8"}, {"weight_block_size", {128, 128}}, {"scale_fmt", "ue8m0"}};
  Json own = fp8;
  own["moe_quant_algo"] = "NVFP4";
  struct Said {
    const char* word;
    Json section;
    const char* want;
  };
  const std::string around = "\nfp8 block128x128 group128_ue8m0 multiply - <-";
  const std::string all[] = {"fp8\nmxfp4 - group128_ue8m0 - - <- experts" + around,
                             "fp8\nfp8 block128x128 group128_ue8m0 multiply - <- experts" + around,
                             "fp8\nnvfp4 g16 nvfp4 multiply - <- experts" + around};
  const Said cases[] = {{"fp4", fp8, all[0].c_str()},
                        {"fp8", fp8, all[1].c_str()},
                        {"fp4", own, all[2].c_str()},
                        {"fp4", nullptr, "expert_dtype\nmxfp4 - - - - <- experts"}};
  for (const auto& [word, section, want] : cases) {
    const TempFolder folder;
    const Json config = {{"model_type", "deepseek_v4"}, {"hidden_size", 64},
                         {"moe_intermediate_size", 32}, {"n_routed_experts", 8},
                         {"num_experts_per_tok", 2},    {"num_hidden_layers", 2},
                         {"hidden_act", "silu"},        {"topk_method", "noaux_tc"},
                         {"expert_dtype", word},        {"quantization_config", section}};
    folder.write("config.json", config.dump());
    EXPECT_EQ(text_of(shipped().resolve(folder.path()).quantization), want);
  }
}

// ModelOpt wrote a file of its own, before it wrote into the config.
TEST(Quantization, AFileBesideTheConfigIsReadWhereTheConfigSaysNothing) {
  const TempFolder folder;
  folder.write("config.json", quantised_olmoe().dump());
  folder.write(
      "hf_quant_config.json",
      R"({"producer":{"name":"modelopt"},"quantization":{"quant_algo":"NVFP4","kv_cache_quant_algo":"FP8",
               "group_size":16,"exclude_modules":["lm_head","model.layers.*.mlp.gate"]}})");
  EXPECT_EQ(text_of(shipped().resolve(folder.path()).quantization),
            "modelopt\nnvfp4 g16 nvfp4 multiply - <-\nnot lm_head\nnot model.layers.*.mlp.gate");
  Json config = quantised_olmoe();
  config["quantization_config"] = {{"quant_method", "mxfp4"}};
  folder.write("config.json", config.dump());
  EXPECT_EQ(text_of(shipped().resolve(folder.path()).quantization), "mxfp4\nmxfp4 g32 none - - <-");
}

TEST(Quantization, AFileBesideTheConfigThatIsWrongIsNamed) {
  const TempFolder folder;
  folder.write("config.json", quantised_olmoe().dump());
  folder.write("hf_quant_config.json", R"({"quantization":{"quant_algo":7}})");
  expect_error(Fault::usage, {"quantization.quant_algo is 7", "hf_quant_config.json"},
               [&] { shipped().resolve(folder.path()); });
  folder.write("hf_quant_config.json", "{ not json");
  expect_error(Fault::input, {"hf_quant_config.json"}, [&] { shipped().resolve(folder.path()); });
  folder.write("hf_quant_config.json", R"({"producer":{}})");
  EXPECT_EQ(text_of(shipped().resolve(folder.path()).quantization), "nothing");
}

}  // namespace
}  // namespace moert::config::test
