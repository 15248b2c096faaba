// The shipped families: what they make of published configs, and that no ignore rule hides an expert.
// SPDX-License-Identifier: Apache-2.0
#include <moert/abi/problem.h>
#include <moert/abi/router.h>
#include <moert/abi/shared_experts.h>

#include <set>

#include "config/config.hpp"
#include "unit/config/support.hpp"

namespace moert::config::test {
namespace {

spec::Model resolve_config(const std::string& config) {
  const TempFolder folder;
  folder.write("config.json", config);
  return shipped().resolve(folder.path());
}

TEST(Families, EachShippedOneCanBeRecognised) {
  for (const FamilyInfo& family : shipped().list())
    EXPECT_FALSE(family.model_types.empty() && family.architectures.empty() && family.keys.empty())
        << family.name;
}

// Facts of published config.json files, as text: the keys that matter here.
struct Published {
  const char* name;
  const char* config;
  const char* family;
  int64_t hidden, layers, first_moe, experts, top_k, width;
  const char* scoring;
  bool renormalize;
  double scale;
  bool bias;
  int64_t groups, top_groups;
  int64_t shared_count, shared_width;  // 0: none
  const char* method;                  // of quantization_config
};
void PrintTo(const Published& p, std::ostream* out) { *out << p.name; }

class PublishedConfigs : public ::testing::TestWithParam<Published> {};

TEST_P(PublishedConfigs, Resolve) {
  const Published& p = GetParam();
  const spec::Model model = resolve_config(p.config);
  EXPECT_EQ(model.family, p.family);
  EXPECT_EQ(model.hidden_size, p.hidden);
  EXPECT_EQ(model.num_layers, p.layers);
  ASSERT_EQ(model.layers.size(), static_cast<size_t>(p.layers - p.first_moe));
  EXPECT_EQ(model.layers.front().layer_id, p.first_moe);
  for (const spec::MoELayer& layer : model.layers) {
    const spec::Routing& r = layer.routing;
    EXPECT_EQ(r.num_experts, p.experts);
    EXPECT_EQ(r.top_k, p.top_k);
    EXPECT_EQ(layer.intermediate_size, p.width);
    EXPECT_EQ(r.scoring, p.scoring);
    EXPECT_EQ(r.renormalize, p.renormalize);
    EXPECT_EQ(r.routed_scale, p.scale);
    EXPECT_EQ(r.selection_bias, p.bias);
    EXPECT_EQ(r.num_groups, p.groups);
    EXPECT_EQ(r.top_groups, p.top_groups);
    EXPECT_EQ(r.group_score, p.groups > 1 ? "top2_sum" : "");
    EXPECT_EQ(layer.shared.has_value(), p.shared_count > 0);
    if (layer.shared) {
      EXPECT_EQ(layer.shared->count, p.shared_count);
      EXPECT_EQ(layer.shared->intermediate_size, p.shared_width);
      EXPECT_EQ(layer.shared->sigmoid_gate, model.family == "qwen2_moe");
    }
    EXPECT_EQ(layer.activation.name, "silu");
  }
  EXPECT_EQ(model.quantization ? model.quantization->method : "", p.method);
}

constexpr const char* kDeepSeek =
    R"({"architectures":["DeepseekV3ForCausalLM"],"model_type":"deepseek_v3","hidden_act":"silu","hidden_size":7168,
    "intermediate_size":18432,"first_k_dense_replace":3,"moe_intermediate_size":2048,"moe_layer_freq":1,"n_group":8,
    "n_routed_experts":256,"n_shared_experts":1,"norm_topk_prob":true,"num_experts_per_tok":8,"num_hidden_layers":61,
    "num_nextn_predict_layers":1,"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]},
    "routed_scaling_factor":2.5,"scoring_func":"sigmoid","topk_group":4,"topk_method":"noaux_tc","torch_dtype":"bfloat16"})";

INSTANTIATE_TEST_SUITE_P(
    Families, PublishedConfigs,
    ::testing::Values(
        Published{
            "olmoe_1b_7b",
            R"({"architectures":["OlmoeForCausalLM"],"model_type":"olmoe","hidden_act":"silu","hidden_size":2048,
              "intermediate_size":1024,"num_experts":64,"num_experts_per_tok":8,"num_hidden_layers":16,
              "torch_dtype":"bfloat16","norm_topk_prob":false})",
            "olmoe", 2048, 16, 0, 64, 8, 1024, "softmax", false, 1, false, 1, 1, 0, 0, ""},
        Published{
            "mixtral_8x7b",
            R"({"architectures":["MixtralForCausalLM"],"model_type":"mixtral","hidden_act":"silu","hidden_size":4096,
              "intermediate_size":14336,"num_experts_per_tok":2,"num_hidden_layers":32,"num_local_experts":8})",
            "mixtral", 4096, 32, 0, 8, 2, 14336, "softmax", true, 1, false, 1, 1, 0, 0, ""},
        Published{
            "qwen3_235b_a22b",
            R"({"architectures":["Qwen3MoeForCausalLM"],"model_type":"qwen3_moe","decoder_sparse_step":1,
              "hidden_act":"silu","hidden_size":4096,"intermediate_size":12288,"mlp_only_layers":[],
              "moe_intermediate_size":1536,"norm_topk_prob":true,"num_experts":128,"num_experts_per_tok":8,
              "num_hidden_layers":94,"torch_dtype":"bfloat16"})",
            "qwen3_moe", 4096, 94, 0, 128, 8, 1536, "softmax", true, 1, false, 1, 1, 0, 0, ""},
        Published{
            "qwen3_coder_480b",  // a shared width of 0
            R"({"model_type":"qwen3_moe","decoder_sparse_step":1,"hidden_act":"silu","hidden_size":6144,
              "intermediate_size":8192,"mlp_only_layers":[],"moe_intermediate_size":2560,"norm_topk_prob":true,
              "num_experts":160,"num_experts_per_tok":8,"num_hidden_layers":62,"shared_expert_intermediate_size":0})",
            "qwen3_moe", 6144, 62, 0, 160, 8, 2560, "softmax", true, 1, false, 1, 1, 0, 0, ""},
        Published{
            "qwen1_5_moe",
            R"({"architectures":["Qwen2MoeForCausalLM"],"model_type":"qwen2_moe","decoder_sparse_step":1,
              "hidden_act":"silu","hidden_size":2048,"intermediate_size":5632,"moe_intermediate_size":1408,
              "norm_topk_prob":false,"num_experts":60,"num_experts_per_tok":4,"num_hidden_layers":24,
              "shared_expert_intermediate_size":5632})",
            "qwen2_moe", 2048, 24, 0, 60, 4, 1408, "softmax", false, 1, false, 1, 1, 1, 5632, ""},
        Published{
            "qwen2_57b",
            R"({"decoder_sparse_step":1,"hidden_act":"silu","hidden_size":3584,"intermediate_size":18944,
              "model_type":"qwen2_moe","moe_intermediate_size":2560,"norm_topk_prob":false,"num_experts":64,
              "num_experts_per_tok":8,"num_hidden_layers":28,"shared_expert_intermediate_size":20480})",
            "qwen2_moe", 3584, 28, 0, 64, 8, 2560, "softmax", false, 1, false, 1, 1, 1, 20480, ""},
        Published{"deepseek_v3", kDeepSeek, "deepseek_v3", 7168, 61, 3, 256, 8, 2048, "sigmoid",
                  true, 2.5, true, 8, 4, 1, 2048, "fp8"},
        Published{
            "kimi_k2",  // architectures of another model
            R"({"architectures":["DeepseekV3ForCausalLM"],"model_type":"kimi_k2","first_k_dense_replace":1,
              "hidden_act":"silu","hidden_size":7168,"intermediate_size":18432,"moe_intermediate_size":2048,
              "moe_layer_freq":1,"n_group":1,"n_routed_experts":384,"n_shared_experts":1,"norm_topk_prob":true,
              "num_experts_per_tok":8,"num_hidden_layers":61,"quantization_config":{"quant_method":"fp8"},
              "routed_scaling_factor":2.827,"scoring_func":"sigmoid","topk_group":1,"topk_method":"noaux_tc"})",
            "deepseek_v3", 7168, 61, 1, 384, 8, 2048, "sigmoid", true, 2.827, true, 1, 1, 1, 2048,
            "fp8"},
        Published{
            "moonlight",  // no architectures; two shared experts
            R"({"first_k_dense_replace":1,"hidden_act":"silu","hidden_size":2048,"model_type":"deepseek_v3",
              "moe_intermediate_size":1408,"moe_layer_freq":1,"n_group":1,"n_routed_experts":64,"n_shared_experts":2,
              "norm_topk_prob":true,"num_experts_per_tok":6,"num_hidden_layers":27,"routed_scaling_factor":2.446,
              "scoring_func":"sigmoid","topk_group":1,"topk_method":"noaux_tc"})",
            "deepseek_v3", 2048, 27, 1, 64, 6, 1408, "sigmoid", true, 2.446, true, 1, 1, 2, 2816,
            ""},
        Published{
            "kimi_k2_5",  // nested, with a sampling setting that looks like a routing one
            R"({"architectures":["KimiK25ForConditionalGeneration"],"model_type":"kimi_k25","text_config":{
              "architectures":["DeepseekV3ForCausalLM"],"model_type":"kimi_k2","first_k_dense_replace":1,
              "hidden_act":"silu","hidden_size":7168,"moe_intermediate_size":2048,"moe_layer_freq":1,"n_group":1,
              "n_routed_experts":384,"n_shared_experts":1,"norm_topk_prob":true,"num_experts_per_tok":8,
              "num_hidden_layers":61,"quantization_config":{"quant_method":"compressed-tensors"},"top_k":50,
              "routed_scaling_factor":2.827,"scoring_func":"sigmoid","topk_group":1,"topk_method":"noaux_tc"}})",
            "deepseek_v3", 7168, 61, 1, 384, 8, 2048, "sigmoid", true, 2.827, true, 1, 1, 1, 2048,
            "compressed-tensors"}),
    case_name<Published>);

TEST(Families, OriginsNameTheKey) {
  const spec::Model model = resolve_config(kDeepSeek);
  EXPECT_EQ(model.origin.at("num_experts"), "config.json: n_routed_experts");
  EXPECT_EQ(model.origin.at("group_score"), "config.json: topk_method");
  EXPECT_EQ(model.origin.at("renormalize_eps"), "family deepseek");
  EXPECT_EQ(model.origin.at("gated"), "default");
  EXPECT_EQ(model.origin.at("shared_width"), "shared_count x intermediate_size");
  EXPECT_EQ(model.layers.front().routing.renormalize_eps, 1e-20);
}

// Does `pattern` take `name`? Digits for {layer} and {expert}, any text for '*'.
bool takes(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern.front() == '*')
    return takes(pattern.substr(1), name) || (!name.empty() && takes(pattern, name.substr(1)));
  if (pattern.front() != '{')
    return !name.empty() && name.front() == pattern.front() &&
           takes(pattern.substr(1), name.substr(1));
  size_t digits = 0;
  while (digits < name.size() && std::isdigit(static_cast<unsigned char>(name[digits])) != 0)
    ++digits;
  return digits > 0 && takes(pattern.substr(pattern.find('}') + 1), name.substr(digits));
}

bool is_ignored(const spec::Tensors& tensors, const std::string& name) {
  for (const spec::TensorRule& rule : tensors.others)
    if (rule.target == spec::Target::ignore && takes(rule.pattern, name)) return true;
  return false;
}

// A tensor name of a rule, in layer 1.
std::string example(const std::string& pattern, const std::string& expert) {
  std::string name = pattern;
  for (const auto& [mark, value] :
       {std::pair<std::string, std::string>{"{layer}", "1"}, {"{expert}", expert}})
    if (const size_t at = name.find(mark); at != std::string::npos)
      name.replace(at, mark.size(), value);
  return name;
}

class ShippedFamily : public ::testing::TestWithParam<std::string> {};

// Every name one letter away from a tensor that is read must not be ignored: it would be lost quietly.
TEST_P(ShippedFamily, IgnoresNoMisspeltTensor) {
  const spec::Tensors tensors = shipped().tensors(GetParam());
  std::vector<std::string> names;
  for (const spec::Layout& layout : tensors.experts)
    for (const spec::TensorRule& rule : layout.rules) names.push_back(example(rule.pattern, "3"));
  for (const spec::TensorRule& rule : tensors.others)
    if (rule.target != spec::Target::ignore) names.push_back(example(rule.pattern, "3"));
  ASSERT_GE(names.size(), 5u);
  for (const std::string& name : names) {
    EXPECT_FALSE(is_ignored(tensors, name)) << name;
    for (size_t i = 0; i < name.size(); ++i) {
      const std::string without = name.substr(0, i) + name.substr(i + 1);
      const std::string doubled = name.substr(0, i) + name[i] + name.substr(i);
      std::string changed = name;
      changed[i] = name[i] == 'q' ? 'z' : 'q';
      for (const std::string& wrong : {without, doubled, changed})
        EXPECT_FALSE(is_ignored(tensors, wrong)) << wrong;
    }
  }
  EXPECT_FALSE(is_ignored(tensors, "model.layers.1.mlp.xperts.3.gate_proj.weight"));
  EXPECT_FALSE(is_ignored(tensors, "model.layers.1.mlp.experts.3.gate_projj.weight"));
  EXPECT_FALSE(is_ignored(tensors, "model.layers.1.mlp.experts.3.gate_proj.bias"));
}

TEST_P(ShippedFamily, NamesEveryPartInEachLayoutAndGivesReasons) {
  const spec::Tensors tensors = shipped().tensors(GetParam());
  std::set<std::string> layouts;
  for (const spec::Layout& layout : tensors.experts) {
    EXPECT_TRUE(layouts.insert(layout.name).second) << layout.name;
    std::set<uint32_t> parts;
    for (const spec::TensorRule& rule : layout.rules)
      if (rule.role == MOERT_ROLE_WEIGHT) parts.insert(rule.parts.begin(), rule.parts.end());
    parts.erase(MOERT_PART_GATE);  // some families have no gate matrix
    EXPECT_EQ(parts, (std::set<uint32_t>{MOERT_PART_UP, MOERT_PART_DOWN})) << layout.name;
  }
  for (const spec::TensorRule& rule : tensors.others)
    EXPECT_EQ(rule.reason.empty(), rule.target != spec::Target::ignore);
}

// By their files, which is fast: every test is a process of its own. Families that are described but
// not run need no tensors.
std::vector<std::string> families_that_run() {
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator(source_folder() / "configs/families")) {
    const std::string text = read_file(file.path());
    const bool runs = text.find("\n  abstract: true") == std::string::npos &&
                      text.find("\n  unsupported:") == std::string::npos;
    if (runs) names.push_back(file.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Families, FilesAreNamedAfterTheirFamilies) {
  std::vector<std::string> names;
  for (const FamilyInfo& family : shipped().list())
    if (family.unsupported.empty()) names.push_back(family.name);
  EXPECT_EQ(families_that_run(), names);
}

INSTANTIATE_TEST_SUITE_P(Families, ShippedFamily, ::testing::ValuesIn(families_that_run()),
                         [](const auto& each) { return each.param; });

TEST(Families, FusedTensorsAreStackedWithGateRowsFirst) {
  const spec::TensorRule rule = shipped().tensors("qwen3_moe").experts[2].rules[0];
  EXPECT_EQ(rule.pattern, "model.layers.{layer}.mlp.experts.gate_up_proj");
  EXPECT_EQ(rule.parts, (std::vector<uint32_t>{MOERT_PART_GATE, MOERT_PART_UP}));
  EXPECT_TRUE(rule.stacked);
  EXPECT_FALSE(rule.transposed || rule.interleaved || rule.optional);
}

TEST(Families, SharedAndRouterTensorsHaveTheirNumbers) {
  std::map<std::string, uint32_t> parts;
  for (const char* family : {"qwen2_moe", "deepseek_v3"}) {
    const spec::Tensors tensors = shipped().tensors(family);
    for (const spec::TensorRule& rule : tensors.others)
      if (rule.target != spec::Target::ignore) parts[rule.pattern] = rule.parts.at(0);
  }
  EXPECT_EQ(parts.at("model.layers.{layer}.mlp.shared_expert_gate.weight"),
            uint32_t{MOERT_PART_SIGMOID_GATE});
  EXPECT_EQ(parts.at("model.layers.{layer}.mlp.shared_expert.down_proj.weight"),
            uint32_t{MOERT_PART_DOWN});
  EXPECT_EQ(parts.at("model.layers.{layer}.mlp.gate.weight"), uint32_t{MOERT_ROUTER_GATE_WEIGHT});
  EXPECT_EQ(parts.at("model.layers.{layer}.mlp.gate.e_score_correction_bias"),
            uint32_t{MOERT_ROUTER_SELECTION_BIAS});
}

// Multi-token prediction layers come after the model's last; its own layers are never ignored whole.
TEST(Families, LayersAfterTheLastAreIgnoredOnlyForAModel) {
  const spec::Model model = resolve_config(kDeepSeek);
  const std::string name = ".mlp.experts.3.gate_proj.weight";
  const spec::Tensors rules = shipped().tensors(model);
  EXPECT_TRUE(is_ignored(rules, "model.layers.61" + name));
  EXPECT_TRUE(is_ignored(rules, "model.layers.61.eh_proj.weight"));
  EXPECT_FALSE(is_ignored(rules, "model.layers.60" + name));
  EXPECT_FALSE(is_ignored(rules, "model.layers.6" + name));
  EXPECT_FALSE(is_ignored(shipped().tensors("deepseek_v3"), "model.layers.61" + name));
}

TEST(Families, UnknownNameIsAUsageFaultWithTheNearest) {
  expect_error(Fault::usage, {"'olmo'", "did you mean 'olmoe'?"},
               [] { shipped().tensors("olmo"); });
  expect_error(Fault::usage, {"'common'"}, [] { shipped().tensors("common"); });
}

}  // namespace
}  // namespace moert::config::test
