// Family files: extending, layouts made from prefixes, and faults.
// SPDX-License-Identifier: Apache-2.0
#include "config/config.hpp"
#include "unit/config/support.hpp"

namespace moert::config::test {
namespace {

std::string family(const std::string& name, const std::string& spec) {
  return "apiVersion: moert/v1\nkind: Family\nmetadata: { name: " + name + " }\nspec:\n" + spec;
}

const std::string kBase = family("base",
                                 "  abstract: true\n"
                                 "  spellings: { num_layers: [n], hidden_size: [h], num_experts: "
                                 "[e], top_k: [k], intermediate_size: [i] }\n"
                                 "  defaults: { gated: true, bias: false, activation: silu, "
                                 "activation_alpha: 0, activation_beta: 0,\n"
                                 "    activation_limit: 0, scoring: softmax, renormalize: false, "
                                 "renormalize_eps: 0, routed_scale: 1, scale_on: weights,\n"
                                 "    selection_bias: false, gate_bias: false, num_groups: 1, "
                                 "top_groups: 1, shared_sigmoid_gate: false }\n"
                                 "  tensors: { ignore: [ { names: [norm], reason: a norm } ] }\n");
const std::string kRules =
    "  tensors:\n"
    "    experts:\n"
    "      - layout: odd\n"
    "        prefixes: [\"a.{layer}.\", \"b.{layer}.\"]\n"
    "        rules:\n"
    "          - { name: \"{expert}.w\", parts: [up, gate], transposed: true, interleaved: true }\n"
    "          - { name: \"all.w\", parts: [down], stacked: true, optional: true, role: bias }\n"
    "    ignore: [ { names: [\"x.{layer}.*\"], reason: mine } ]\n";

class Files {
 public:
  Families load(const std::vector<std::string>& texts) const {
    for (size_t i = 0; i < texts.size(); ++i) folder_.write(std::to_string(i) + ".yaml", texts[i]);
    return Families::load({folder_.path()});
  }
  const TempFolder& folder() const { return folder_; }

 private:
  TempFolder folder_;
};

TEST(FamilyFile, RulesCarryEveryProperty) {
  const Families families = Files().load(
      {kBase, family("odd", "  extends: base\n  match: { model_type: [odd] }\n" + kRules)});
  const spec::Tensors tensors = families.tensors("odd");
  ASSERT_EQ(tensors.experts.size(), 2u);
  EXPECT_EQ(tensors.experts[1].name, "odd#2");
  const spec::TensorRule& pair = tensors.experts[0].rules[0];
  EXPECT_EQ(pair.pattern, "a.{layer}.{expert}.w");
  EXPECT_EQ(pair.parts, (std::vector<uint32_t>{1, 0}));  // up first
  EXPECT_TRUE(pair.transposed && pair.interleaved && !pair.stacked && !pair.optional);
  const spec::TensorRule& down = tensors.experts[1].rules[1];
  EXPECT_EQ(down.pattern, "b.{layer}.all.w");
  EXPECT_TRUE(down.stacked && down.optional && down.role == 1);
  ASSERT_EQ(tensors.others.size(), 2u);  // the family's own, then the base's
  EXPECT_EQ(tensors.others[0].reason, "mine");
  EXPECT_EQ(tensors.others[1].reason, "a norm");
}

TEST(FamilyFile, BasesMayExtendBases) {
  const Families families = Files().load(
      {kBase,
       family("middle",
              "  abstract: true\n  extends: base\n  defaults: { scoring: sigmoid }\n" + kRules),
       family("odd",
              "  extends: middle\n  match: { model_type: [odd] }\n"
              "  defaults: { renormalize: true }\n")});
  const spec::Tensors tensors = families.tensors("odd");
  EXPECT_EQ(tensors.experts.size(), 2u);  // from the middle
  EXPECT_EQ(tensors.others.size(), 2u);   // from both
  const TempFolder checkpoint;
  checkpoint.write("config.json", R"({"model_type":"odd","n":1,"h":2,"e":4,"k":2,"i":3})");
  const spec::Routing routing = families.resolve(checkpoint.path()).layers.front().routing;
  EXPECT_TRUE(routing.renormalize);
  EXPECT_EQ(routing.scoring, "sigmoid");
}

TEST(FamilyFile, EveryRootIsTried) {
  const Families families = Files().load(
      {family("rooted",
              "  match: { model_type: [r] }\n  roots: [\"model.\", \"lm.model.\"]\n"
              "  tensors:\n"
              "    experts: [ { layout: l, prefixes: [\"{root}layers.{layer}.\"],\n"
              "                 rules: [ { name: \"{expert}.w\", parts: [gate] } ] } ]\n"
              "    router: [ { name: \"{root}layers.{layer}.gate\", tensor: gate_weight } ]\n"
              "    ignore: [ { names: [head], reason: not read } ]\n")});
  const spec::Tensors tensors = families.tensors("rooted");
  ASSERT_EQ(tensors.experts.size(), 2u);
  EXPECT_EQ(tensors.experts[0].rules[0].pattern, "model.layers.{layer}.{expert}.w");
  EXPECT_EQ(tensors.experts[1].rules[0].pattern, "lm.model.layers.{layer}.{expert}.w");
  ASSERT_EQ(tensors.others.size(), 3u);  // two of the router, and the ignored one once
  EXPECT_EQ(tensors.others.back().pattern, "lm.model.layers.{layer}.gate");
}

// A family that is only YAML: nothing of it is known to the program.
TEST(FamilyFile, NewFamilyNeedsNoCode) {
  const Files files;
  const Families families =
      files.load({kBase, family("odd",
                                "  extends: base\n"
                                "  match: { architectures: [OddModel] }\n"
                                "  layers: [dense_list]\n"
                                "  spellings: { dense_list: [plain_layers], scoring: [odd.gate] }\n"
                                "  words: { scoring: { logistic: sigmoid } }\n" +
                                    kRules)});
  files.folder().write(
      "c/config.json",
      R"({"architectures":["OddModel"],"n":3,"h":8,"e":4,"k":2,"i":16,"odd":{"gate":"logistic"},"plain_layers":[1]})");
  const spec::Model model = families.resolve(files.folder().path() / "c");
  EXPECT_EQ(model.family, "odd");
  EXPECT_EQ(model.layers.size(), 2u);
  EXPECT_EQ(model.layers[1].layer_id, 2);
  EXPECT_EQ(model.layers[1].routing.scoring, "sigmoid");
  EXPECT_EQ(model.origin.at("scoring"), "config.json: odd.gate");
}

TEST(FamilyFile, FoldersAddUp) {
  const Files a, b;
  a.load({kBase});
  b.folder().write("x.yaml", family("mine", "  extends: base\n"));
  b.folder().write("notes.txt", "no family");
  EXPECT_EQ(Families::load({a.folder().path(), b.folder().path()}).names(),
            (std::vector<std::string>{"mine"}));
  expect_error(Fault::usage, {"no-such-folder"}, [] { Families::load({"/no-such-folder"}); });
}

struct FamilyFault {
  const char* name;
  std::vector<std::string> texts;
  std::vector<std::string> parts;
};
void PrintTo(const FamilyFault& f, std::ostream* out) { *out << f.name; }

class FamilyFaults : public ::testing::TestWithParam<FamilyFault> {};

TEST_P(FamilyFaults, AreSaidWithTheirPlace) {
  const Files files;
  std::vector<std::string> parts = GetParam().parts;
  parts.push_back(files.folder().path().string());
  expect_error(Fault::usage, parts, [&] { files.load(GetParam().texts); });
}

std::string with_rule(const std::string& rule) {
  return family("f", "  tensors: { experts: [ { layout: l, prefixes: [\"m.{layer}.\"], rules: [ " +
                         rule + " ] } ] }\n");
}
std::string with_ignore(const std::string& name) {
  return family("f",
                "  tensors:\n"
                "    experts: [ { layout: l, prefixes: [\"{root}layers.{layer}.mlp.experts.\"],\n"
                "                 rules: [ { name: \"{expert}.w\", parts: [gate] } ] } ]\n"
                "    ignore: [ { names: [\"" +
                    name + "\"], reason: r } ]\n");
}

INSTANTIATE_TEST_SUITE_P(
    FamilyFile, FamilyFaults,
    ::testing::Values(
        FamilyFault{"twice",
                    {family("f", "  abstract: true\n"), family("f", "  abstract: true\n")},
                    {"'f' is described twice", "0.yaml:3"}},
        FamilyFault{"unknown_base",
                    {kBase, family("f", "  extends: bsae\n")},
                    {"'bsae'", "did you mean 'base'?"}},
        FamilyFault{"concrete_base",
                    {family("a", "  layers: []\n"), family("f", "  extends: a\n")},
                    {"no abstract family"}},
        FamilyFault{
            "itself", {family("f", "  abstract: true\n  extends: f\n")}, {"extends itself"}},
        FamilyFault{"circle",
                    {family("a", "  abstract: true\n  extends: b\n"),
                     family("b", "  abstract: true\n  extends: a\n")},
                    {"extends itself in the end"}},
        FamilyFault{"same_claim",
                    {family("a", "  match: { model_type: [m] }\n"),
                     family("b", "  match: { model_type: [m] }\n")},
                    {"'a'", "'b'", "both match 'm'"}},
        FamilyFault{"quantity",
                    {family("f", "  spellings: { topk: [x] }\n")},
                    {"unknown key 'topk'", "did you mean 'top_k'?"}},
        FamilyFault{
            "activation", {family("f", "  defaults: { activation: swish }\n")}, {"'swish'"}},
        FamilyFault{"star",
                    {with_rule("{ name: \"*.w\", parts: [gate], stacked: true }")},
                    {"'*'", "only ignore rules"}},
        FamilyFault{"placeholder",
                    {with_rule("{ name: \"{exprt}.w\", parts: [gate] }")},
                    {"brace", "{layer}, {expert}"}},
        FamilyFault{
            "no_expert", {with_rule("{ name: w, parts: [gate] }")}, {"{expert}", "stacked"}},
        FamilyFault{"both",
                    {with_rule("{ name: \"{expert}.w\", parts: [gate], stacked: true }")},
                    {"{expert}", "stacked"}},
        FamilyFault{"down_pair",
                    {with_rule("{ name: \"{expert}.w\", parts: [gate, down] }")},
                    {"only gate and up"}},
        FamilyFault{"lonely",
                    {with_rule("{ name: \"{expert}.w\", parts: [gate], interleaved: true }")},
                    {"interleaved"}},
        FamilyFault{"part",
                    {with_rule("{ name: \"{expert}.w\", parts: [gat] }")},
                    {"'gat'", "did you mean 'gate'?"}},
        FamilyFault{
            "no_layer",
            {family("f", "  tensors: { router: [ { name: gate, tensor: gate_weight } ] }\n")},
            {"no {layer}"}},
        FamilyFault{"no_reason",
                    {family("f", "  tensors: { ignore: [ { names: [x] } ] }\n")},
                    {"reason' is missing"}},
        FamilyFault{"ignore_all", {with_ignore("*")}, {"would hide tensors"}},
        FamilyFault{"ignore_layers", {with_ignore("{root}layers.*")}, {"would hide tensors"}},
        FamilyFault{
            "ignore_layer", {with_ignore("{root}layers.{layer}.*")}, {"would hide tensors"}},
        FamilyFault{
            "ignore_mlp", {with_ignore("{root}layers.{layer}.mlp.*")}, {"would hide tensors"}},
        FamilyFault{"run_file",
                    {"apiVersion: moert/v1\nkind: Run\n"},
                    {"this is a Run, a Family is needed"}}),
    case_name<FamilyFault>);

}  // namespace
}  // namespace moert::config::test
