// The committed checkpoints under hand-written rules of their families.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>

#include <moert/abi/problem.h>
#include <moert/abi/router.h>
#include <moert/abi/shared_experts.h>

#include "unit/weights/support.hpp"

namespace moert::weights {
namespace {

using spec::Target;
using spec::TensorRule;

TensorRule ignore(std::string pattern, std::string reason) {
  TensorRule result = rule_of(Target::ignore, std::move(pattern), {});
  result.reason = std::move(reason);
  return result;
}

spec::Layout per_expert(const std::string& prefix, const std::string& gate, const std::string& up,
                        const std::string& down) {
  spec::Layout layout{"per_expert", {}};
  for (const char* experts : {"experts.", "experts.routed_experts."}) {
    const std::string stem = prefix + experts + "{expert}.";
    layout.rules.push_back(rule_of(Target::expert, stem + gate + ".weight", {MOERT_PART_GATE}));
    layout.rules.push_back(rule_of(Target::expert, stem + up + ".weight", {MOERT_PART_UP}));
    layout.rules.push_back(rule_of(Target::expert, stem + down + ".weight", {MOERT_PART_DOWN}));
  }
  return layout;
}

spec::Layout fused(const std::string& prefix) {
  spec::Layout layout{"fused", {}};
  layout.rules.push_back(
      rule_of(Target::expert, prefix + "experts.gate_up_proj", {MOERT_PART_GATE, MOERT_PART_UP}));
  layout.rules.push_back(rule_of(Target::expert, prefix + "experts.down_proj", {MOERT_PART_DOWN}));
  for (TensorRule& one : layout.rules) one.stacked = true;
  return layout;
}

void add_common(spec::Tensors* tensors, const std::string& prefix) {
  auto& others = tensors->others;
  others.push_back(rule_of(Target::router, prefix + "gate.weight", {MOERT_ROUTER_GATE_WEIGHT}));
  others.push_back(ignore("model.layers.{layer}.input_layernorm.weight", "norm"));
  others.push_back(ignore("model.layers.{layer}.post_attention_layernorm.weight", "norm"));
  others.push_back(ignore("model.norm.weight", "norm"));
  others.push_back(ignore("model.layers.*.self_attn.*", "attention"));
  others.push_back(ignore("model.embed_tokens.weight", "embedding"));
  others.push_back(ignore("lm_head.weight", "output head"));
}

void add_dense(spec::Tensors* tensors) {
  for (const char* part : {"gate", "up", "down"})
    tensors->others.push_back(
        ignore(std::string("model.layers.{layer}.mlp.") + part + "_proj.weight", "dense layer"));
}

spec::Model model(int64_t h, int64_t i, int64_t e, int64_t k, int64_t layers,
                  const std::vector<int64_t>& moe) {
  spec::Model result;
  result.hidden_size = h;
  result.num_layers = layers;
  for (const int64_t id : moe) {
    spec::MoELayer layer;
    layer.layer_id = id;
    layer.intermediate_size = i;
    layer.routing.num_experts = e;
    layer.routing.top_k = k;
    result.layers.push_back(layer);
  }
  return result;
}

constexpr const char* kMlp = "model.layers.{layer}.mlp.";

}  // namespace

Family olmoe() {
  Family family{model(40, 16, 8, 3, 2, {0, 1}), {}};
  family.tensors.experts = {per_expert(kMlp, "gate_proj", "up_proj", "down_proj"), fused(kMlp)};
  add_common(&family.tensors, kMlp);
  return family;
}

Family mixtral() {
  const std::string prefix = "model.layers.{layer}.block_sparse_moe.";
  Family family{model(32, 24, 8, 2, 2, {0, 1}), {}};
  family.tensors.experts = {per_expert(prefix, "w1", "w3", "w2")};
  add_common(&family.tensors, prefix);
  return family;
}

Family qwen3_moe() {
  Family family{model(36, 20, 8, 3, 3, {0, 2}), {}};
  family.tensors.experts = {per_expert(kMlp, "gate_proj", "up_proj", "down_proj"), fused(kMlp)};
  add_common(&family.tensors, kMlp);
  add_dense(&family.tensors);
  return family;
}

Family qwen2_moe() {
  Family family{model(40, 16, 8, 4, 3, {1}), {}};
  family.model.layers[0].shared = spec::SharedExperts{1, 28, true, false, {}};
  family.tensors.experts = {per_expert(kMlp, "gate_proj", "up_proj", "down_proj")};
  add_common(&family.tensors, kMlp);
  add_dense(&family.tensors);
  auto& others = family.tensors.others;
  const std::string shared = std::string(kMlp) + "shared_expert.";
  others.push_back(rule_of(Target::shared, shared + "gate_proj.weight", {MOERT_PART_GATE}));
  others.push_back(rule_of(Target::shared, shared + "up_proj.weight", {MOERT_PART_UP}));
  others.push_back(rule_of(Target::shared, shared + "down_proj.weight", {MOERT_PART_DOWN}));
  others.push_back(rule_of(Target::shared, std::string(kMlp) + "shared_expert_gate.weight",
                           {MOERT_PART_SIGMOID_GATE}));
  return family;
}

Family deepseek_v3() {
  Family family{model(32, 12, 16, 4, 3, {1, 2}), {}};
  for (spec::MoELayer& layer : family.model.layers) {
    layer.shared = spec::SharedExperts{1, 12, false, false, {}};
    layer.routing.selection_bias = true;
  }
  family.tensors.experts = {per_expert(kMlp, "gate_proj", "up_proj", "down_proj")};
  add_common(&family.tensors, kMlp);
  add_dense(&family.tensors);
  auto& others = family.tensors.others;
  others.push_back(rule_of(Target::router, std::string(kMlp) + "gate.e_score_correction_bias",
                           {MOERT_ROUTER_SELECTION_BIAS}));
  const std::string shared = std::string(kMlp) + "shared_experts.";
  others.push_back(rule_of(Target::shared, shared + "gate_proj.weight", {MOERT_PART_GATE}));
  others.push_back(rule_of(Target::shared, shared + "up_proj.weight", {MOERT_PART_UP}));
  others.push_back(rule_of(Target::shared, shared + "down_proj.weight", {MOERT_PART_DOWN}));
  return family;
}

std::vector<std::string> texts_of(const Plan& plan) {
  constexpr const char* kWords[] = {"missing ", "unexpected ", "misshapen "};
  std::vector<std::string> texts;
  for (const Finding& finding : plan.findings) texts.push_back(kWords[finding.kind] + finding.name);
  return texts;
}

namespace {

struct FamilyCase {
  const char* name;
  const char* folder;
  Family (*family)();
  const char* layout;
  size_t expert_tensors;
};
std::ostream& operator<<(std::ostream& out, const FamilyCase& c) { return out << c.name; }

constexpr FamilyCase kFamilies[] = {
    {"olmoe", "olmoe-f32", olmoe, "per_expert", 48},
    {"mixtral", "mixtral-f32", mixtral, "per_expert", 48},
    {"qwen3_moe", "qwen3-moe-f32", qwen3_moe, "per_expert", 48},
    {"qwen3_moe_fused", "qwen3-moe-fused-f32", qwen3_moe, "fused", 4},
    {"qwen2_moe", "qwen2-moe-f32", qwen2_moe, "per_expert", 24},
    {"deepseek_v3", "deepseek-v3-f32", deepseek_v3, "per_expert", 96},
};

class Families : public ::testing::TestWithParam<FamilyCase> {
 protected:
  Family family = GetParam().family();
  std::filesystem::path folder = data_folder(GetParam().folder);

  // Names of the tensors that feed experts, each once.
  static std::vector<std::string> expert_tensors(const Plan& plan) {
    std::vector<std::string> names;
    for (const LayerPlan& layer : plan.layers)
      for (const Source& source : layer.sources)
        if (source.target == Target::expert) names.push_back(source.tensor->name);
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  }
  // Findings of a checkpoint with these tensors.
  std::vector<std::string> findings(const testing::SafetensorsEdit& edit) const {
    const std::filesystem::path file = test_folder() / "model.safetensors";
    edit.write(file);
    const Checkpoint checkpoint(file);
    const Plan plan = make_plan(family.model, family.tensors, checkpoint);
    if (!plan.findings.empty())
      expect_input_error([&] { plan.require_complete(checkpoint); }, plan.findings[0].name,
                         file.string());
    return texts_of(plan);
  }
};

TEST_P(Families, FitsWhole) {
  const Checkpoint checkpoint(folder);
  const Plan plan = make_plan(family.model, family.tensors, checkpoint);
  EXPECT_EQ(texts_of(plan), std::vector<std::string>{});
  plan.require_complete(checkpoint);
  EXPECT_EQ(plan.used + plan.ignored, checkpoint.tensors().size());
  EXPECT_EQ(expert_tensors(plan).size(), GetParam().expert_tensors);
  uint64_t ignored = 0;
  for (const auto& [reason, count] : plan.ignored_by_reason) ignored += count;
  EXPECT_EQ(ignored, plan.ignored);
  ASSERT_EQ(plan.layers.size(), family.model.layers.size());
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const spec::MoELayer& layer = family.model.layers[i];
    EXPECT_EQ(plan.layers[i].layer_id, layer.layer_id);
    EXPECT_EQ(plan.layers[i].layout, GetParam().layout);
    EXPECT_EQ(plan.layers[i].scheme, "f32");
    EXPECT_EQ(plan.layers[i].shared_scheme, layer.shared ? "f32" : "");
    const auto experts = static_cast<size_t>(layer.routing.num_experts) * 3;
    const size_t shared = layer.shared ? (layer.shared->sigmoid_gate ? 4 : 3) : 0;
    EXPECT_EQ(plan.layers[i].sources.size(), experts + 1 + layer.routing.selection_bias + shared);
    for (size_t s = 0; s < experts; ++s)
      EXPECT_EQ(plan.layers[i].sources[s].expert, static_cast<int64_t>(s / 3));
  }
}

TEST_P(Families, EveryExpertTensorDropped) {
  const testing::SafetensorsEdit whole(folder);
  for (const std::string& name :
       expert_tensors(make_plan(family.model, family.tensors, Checkpoint(folder)))) {
    testing::SafetensorsEdit edit = whole;
    edit.drop(name);
    EXPECT_EQ(findings(edit), std::vector<std::string>{"missing " + name});
  }
}

TEST_P(Families, EveryExpertTensorRenamed) {
  const testing::SafetensorsEdit whole(folder);
  for (const std::string& name :
       expert_tensors(make_plan(family.model, family.tensors, Checkpoint(folder)))) {
    testing::SafetensorsEdit edit = whole;
    const std::string other = name + "s";
    edit.rename(name, other);
    EXPECT_EQ(findings(edit), (std::vector<std::string>{"missing " + name, "unexpected " + other}));
    const std::filesystem::path file = test_folder() / "model.safetensors";
    edit.write(file);
    const Plan plan = make_plan(family.model, family.tensors, Checkpoint(file));
    EXPECT_EQ(plan.findings[0].nearest, other);
    EXPECT_EQ(plan.findings[1].nearest, name);
  }
}

TEST_P(Families, EveryExpertTensorMisshapen) {
  const testing::SafetensorsEdit whole(folder);
  for (const std::string& name :
       expert_tensors(make_plan(family.model, family.tensors, Checkpoint(folder)))) {
    testing::SafetensorsEdit edit = whole;
    std::vector<int64_t> shape = edit.at(name).shape;
    std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
    edit.reshape(name, shape);
    EXPECT_EQ(findings(edit), std::vector<std::string>{"misshapen " + name});
    for (const int64_t size : {int64_t{0}, whole.tensors[0].shape[0] + 1}) {
      shape.back() = size;
      edit.reshape(name, shape);
      EXPECT_EQ(findings(edit), std::vector<std::string>{"misshapen " + name});
    }
  }
}

TEST_P(Families, EveryExpertTensorTwice) {
  const testing::SafetensorsEdit whole(folder);
  const std::string from = "experts.", to = "experts.routed_experts.";
  for (const std::string& name :
       expert_tensors(make_plan(family.model, family.tensors, Checkpoint(folder)))) {
    testing::SafetensorsEdit edit = whole;
    edit.duplicate(name, name);
    const std::filesystem::path file = test_folder() / "model.safetensors";
    edit.write(file);
    expect_input_error([&] { Checkpoint checkpoint(file); }, "'" + name + "' stands twice", name);
    if (GetParam().layout != std::string("per_expert")) continue;
    std::string other = name;  // both spellings
    other.replace(other.find(from), from.size(), to);
    edit.tensors.back().name = other;
    EXPECT_EQ(findings(edit), std::vector<std::string>{"unexpected " + other});
  }
}

TEST_P(Families, EveryOtherTensorThatIsUsed) {
  const testing::SafetensorsEdit whole(folder);
  const Checkpoint checkpoint(folder);
  const Plan plan = make_plan(family.model, family.tensors, checkpoint);
  for (const LayerPlan& layer : plan.layers) {
    for (const Source& source : layer.sources) {
      if (source.target == Target::expert) continue;
      const std::string& name = source.tensor->name;
      testing::SafetensorsEdit edit = whole;
      edit.drop(name);
      EXPECT_EQ(findings(edit), std::vector<std::string>{"missing " + name});
      edit = whole;
      edit.reshape(name, {3, 5});
      EXPECT_EQ(findings(edit), std::vector<std::string>{"misshapen " + name});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Data, Families, ::testing::ValuesIn(kFamilies),
                         [](const auto& test) { return std::string(test.param.name); });

// The two ways in which the same weights are stored give the same windows, element for element.
TEST(FamilyLayouts, FusedEqualsPerExpert) {
  const Family family = qwen3_moe();
  const Checkpoint split(data_folder("qwen3-moe-f32")), whole(data_folder("qwen3-moe-fused-f32"));
  const Plan a = make_plan(family.model, family.tensors, split);
  const Plan b = make_plan(family.model, family.tensors, whole);
  size_t compared = 0;
  for (size_t l = 0; l < a.layers.size(); ++l) {
    for (const Source& one : a.layers[l].sources) {
      for (const Source& two : b.layers[l].sources) {
        if (one.target != two.target || one.expert != two.expert || one.part != two.part) continue;
        const TensorView left = source_view(split, one), right = source_view(whole, two);
        const moert_tensor_t &x = *left.get(), &y = *right.get();
        ASSERT_EQ(tensor_text(x), tensor_text(y));
        for (int64_t r = 0; r < x.shape[0]; ++r)
          for (int64_t c = 0; c < x.shape[1]; ++c, ++compared)
            ASSERT_EQ(read_f32(x, r * x.strides[0] + c * x.strides[1]),
                      read_f32(y, r * y.strides[0] + c * y.strides[1]));
      }
    }
  }
  EXPECT_EQ(compared, size_t{2} * (8 * 3 * 20 * 36 + 8 * 36));
}

}  // namespace
}  // namespace moert::weights
