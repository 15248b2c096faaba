// Kind Model: what is written reads back the same, and faults are found.
// SPDX-License-Identifier: Apache-2.0
#include <random>

#include "config/config.hpp"
#include "unit/config/support.hpp"

namespace moert::config::test {
namespace {

void expect_equal(const spec::Model& a, const spec::Model& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.family, b.family);
  EXPECT_EQ(a.checkpoint, b.checkpoint);
  EXPECT_EQ(a.hidden_size, b.hidden_size);
  EXPECT_EQ(a.num_layers, b.num_layers);
  EXPECT_EQ(a.extra_layers, b.extra_layers);
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_EQ(a.dense_layers, b.dense_layers);
  EXPECT_EQ(a.unsupported, b.unsupported);
  EXPECT_EQ(a.layers, b.layers);
}

spec::Model written_and_read(const spec::Model& model) {
  const TempFolder folder;
  return read_model(folder.write("m.yaml", write_model(model)));
}

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(engine_); }
  bool coin() { return below(2) == 0; }
  double real() { return std::uniform_real_distribution<double>(1e-9, 1e3)(engine_); }

 private:
  std::mt19937_64 engine_;
};

spec::MoELayer random_layer(Random& random) {
  spec::MoELayer layer;
  layer.intermediate_size = 1 + random.below(5000);
  layer.gated = random.coin();
  layer.bias = random.coin();
  const char* schemes[] = {"",    "fp8", "mxfp4.g32.e8m0", "a \"quoted\" one", "12", "true", "null",
                           "# x", "é"};
  layer.scheme = schemes[random.below(9)];
  const char* names[] = {"silu", "gelu_tanh", "relu2", "situ"};
  const auto activation = [&] {
    return spec::Activation{names[random.below(4)], random.coin() ? 0 : random.real(),
                            random.coin() ? 0 : -random.real(), random.coin() ? 0 : random.real()};
  };
  layer.activation = activation();
  layer.weight_on_input = random.coin();
  layer.output_bias = random.coin();
  layer.latent_size = random.coin() ? 0 : 1 + random.below(5000);
  const char* norms[] = {"none", "in", "out"};
  layer.expert_norm = norms[random.below(3)];
  if (layer.expert_norm != "none") layer.expert_norm_eps = 1e-6;
  spec::Routing& r = layer.routing;
  const char* scorings[] = {"softmax", "softmax_topk", "sigmoid", "sqrtsoftplus"};
  r.scoring = scorings[random.below(4)];
  r.logit_scale = random.coin() ? 1 : random.real();
  r.logit_softcap = random.coin() ? 0 : random.real();
  r.expert_scale = random.coin();
  r.unit_input = random.coin();
  if (r.unit_input) r.unit_input_eps = 1e-6;
  r.num_groups = 1 + random.below(4);
  r.num_experts = r.num_groups * (1 + random.below(64));
  r.top_groups = 1 + random.below(r.num_groups);
  r.top_k = 1 + random.below(r.top_groups * (r.num_experts / r.num_groups));
  r.group_score = r.num_groups == 1 ? "" : random.coin() ? "max" : "top2_sum";
  r.renormalize = random.coin();
  r.renormalize_eps = random.coin() ? 0 : 1e-20;
  r.renormalize_floor = random.coin() ? 0 : 1e-12;
  r.routed_scale = random.real();
  r.scale_on_output = random.coin();
  r.selection_bias = random.coin();
  r.bias_on_logits = r.selection_bias && random.coin();
  r.gate_bias = random.coin();
  if (r.num_groups == 1 && random.coin()) r.zero_experts = 1 + random.below(9);
  if (r.num_groups == 1 && !r.selection_bias && random.coin()) r.method = "hash";
  if (random.coin())
    layer.shared =
        spec::SharedExperts{1 + random.below(4), 1 + random.below(5000), random.coin(),
                            random.coin(), random.coin() ? layer.activation : activation()};
  return layer;
}

spec::Quantization random_quantization(Random& random) {
  const char* words[] = {"",
                         "fp8",
                         "block128x128",
                         "re:.*\\.(gate|up)_proj$",
                         "model.layers.*.mlp",
                         "a \"quoted\" one",
                         "12",
                         "null",
                         "# x"};
  const auto word = [&] { return std::string(words[1 + random.below(8)]); };
  const auto list = [&] {
    std::vector<std::string> items;
    for (int64_t i = random.below(4); i > 0; --i) items.push_back(word());
    return items;
  };
  const char* globals[] = {"", "multiply", "divide"};
  const char* zeros[] = {"", "none", "stored", "plus_one"};
  spec::Quantization q{word(), {}, list()};
  for (int64_t i = random.below(4); i > 0; --i)
    q.groups.push_back({list(),
                        {word(), random.coin() ? "" : word(), random.coin() ? "" : word(),
                         globals[random.below(3)], zeros[random.below(4)],
                         random.coin() ? "" : "high", random.coin() ? "" : "stored"}});
  return q;
}

spec::Model random_model(uint64_t seed) {
  Random random(seed);
  spec::Model model;
  const char* names[] = {"m", "a model: of mine", "7", "yes", "x#y", "line\nbreak"};
  model.name = names[random.below(6)];
  model.family = "olmoe";
  model.checkpoint = random.coin() ? "/data/a b/c" : "/data/\"x\"\\y\t\x01z";
  model.hidden_size = 1 + random.below(8192);
  model.num_layers = 1 + random.below(40);
  model.extra_layers = random.below(3);
  model.dtype = random.coin() ? "bf16" : "";
  if (random.coin()) model.quantization = random_quantization(random);
  if (random.coin()) model.unsupported = {"one: reason", "\"another\" # of them"};
  std::vector<spec::MoELayer> kinds;
  for (int i = 0; i < 3; ++i) kinds.push_back(random_layer(random));
  for (int64_t id = 0; id < model.num_layers; ++id) {
    const int64_t kind = random.below(4);
    if (kind == 3) {
      model.dense_layers.push_back(id);
      continue;
    }
    model.layers.push_back(kinds[static_cast<size_t>(kind)]);
    model.layers.back().layer_id = id;
  }
  model.origin["num_experts"] = random.coin() ? "config.json: num_experts" : "two\nlines: [broken";
  return model;
}

class RoundTrip : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RoundTrip, KeepsEverything) {
  const spec::Model model = random_model(GetParam());
  SCOPED_TRACE(write_model(model));
  expect_equal(written_and_read(model), model);
}

INSTANTIATE_TEST_SUITE_P(Model, RoundTrip, ::testing::Range<uint64_t>(0, 100));

TEST(Model, ShippedCheckpointsKeepEverything) {
  const Families families = Families::load({source_folder() / "configs/families"});
  int count = 0;
  for (const auto& folder : fs::directory_iterator(source_folder() / "tests/data")) {
    if (!fs::exists(folder.path() / "golden.safetensors")) continue;
    SCOPED_TRACE(folder.path());
    const spec::Model model = families.resolve(folder.path());
    EXPECT_FALSE(model.layers.empty());
    expect_equal(written_and_read(model), model);
    ++count;
  }
  EXPECT_GE(count, 10);
}

TEST(Model, DenseModelWithoutFamilyKeepsEverything) {
  spec::Model model;
  model.name = "dense";
  model.checkpoint = "/d";
  model.num_layers = 3;
  model.dense_layers = {0, 1, 2};
  expect_equal(written_and_read(model), model);
}

TEST(Model, LayersOfEqualContentAreOneEntryAndSayWhereTheyComeFrom) {
  spec::Model model = random_model(1);
  model.dense_layers = {0};
  model.num_layers = 8;
  Random random(1);
  model.layers.assign(7, random_layer(random));
  for (int64_t i = 0; i < 7; ++i) model.layers[static_cast<size_t>(i)].layer_id = i + 1;
  model.layers[5].intermediate_size += 1;  // layer 6
  model.origin["num_experts"] = "config.json: n_routed_experts";
  const std::string text = write_model(model);
  EXPECT_NE(text.find("layers: \"1-5,7\""), std::string::npos) << text;
  EXPECT_NE(text.find("layers: \"6\""), std::string::npos) << text;
  EXPECT_NE(text.find("# config.json: n_routed_experts"), std::string::npos) << text;
}

TEST(Model, CheckpointIsRelativeToTheFile) {
  const TempFolder folder;
  const fs::path file = folder.write(
      "x/m.yaml",
      "apiVersion: moert/v1\nkind: Model\nmetadata: { name: m }\n"
      "spec: { checkpoint: ../ckpt, hidden_size: 4, num_layers: 1, dense_layers: 0 }\n");
  EXPECT_EQ(read_model(file).checkpoint, folder.path() / "ckpt");
}

TEST(Model, EveryShippedOneReads) {
  for (const auto& file : fs::directory_iterator(source_folder() / "configs/models")) {
    if (file.path().extension() != ".yaml") continue;
    EXPECT_EQ(read_model(file.path()).name, file.path().stem().string());
    EXPECT_EQ(kind_of(file.path()), "Model");
  }
}

// Describes the same model as the folder itself.
TEST(Model, ShippedDescriptionFitsItsCheckpoint) {
  const spec::Model read = read_model(source_folder() / "configs/models/olmoe-tiny.yaml");
  const spec::Model resolved = Families::load({source_folder() / "configs/families"})
                                   .resolve(source_folder() / "tests/data/olmoe-tiny");
  expect_equal(read, resolved);
}

struct ModelFault {
  const char* name;
  std::string from, to;  // replaced in a good document
  std::vector<std::string> parts;
};
void PrintTo(const ModelFault& f, std::ostream* out) { *out << f.name; }

class ModelFaults : public ::testing::TestWithParam<ModelFault> {};

const std::string kGood =
    "apiVersion: moert/v1\n"
    "kind: Model\n"
    "metadata: { name: m }\n"
    "spec:\n"
    "  family: olmoe\n"
    "  checkpoint: /c\n"
    "  hidden_size: 64\n"
    "  num_layers: 4\n"
    "  dense_layers: 0\n"
    "  layers:\n"
    "    - layers: 1-3\n"
    "      intermediate_size: 32\n"
    "      routing: { num_experts: 8, top_k: 2, num_groups: 4, top_groups: 2, group_score: max }\n";

TEST_P(ModelFaults, AreSaidWithTheirPlace) {
  std::string text = kGood;
  const size_t at = text.find(GetParam().from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, GetParam().from.size(), GetParam().to);
  const TempFolder folder;
  const fs::path file = folder.write("m.yaml", text);
  std::vector<std::string> parts = GetParam().parts;
  parts.push_back(file.string() + ":");
  expect_error(Fault::usage, parts, [&] { read_model(file); });
}

INSTANTIATE_TEST_SUITE_P(
    Model, ModelFaults,
    ::testing::Values(
        ModelFault{"spelling",
                   "top_k: 2",
                   "num_experts_per_tok: 2",
                   {"unknown key 'num_experts_per_tok'", ":13:"}},
        ModelFault{"missing", "top_k: 2, ", "", {"'spec.layers[0].routing.top_k'", "missing"}},
        ModelFault{"top_k_above", "top_k: 2", "top_k: 9", {"top_k 9", "num_experts 8", ":13:16"}},
        ModelFault{
            "uneven_groups", "num_groups: 4", "num_groups: 3", {"num_experts 8", "num_groups 3"}},
        ModelFault{
            "top_groups", "top_groups: 2", "top_groups: 5", {"top_groups 5", "num_groups 4"}},
        ModelFault{"too_few_reachable",
                   "top_k: 2, num_groups: 4, top_groups: 2",
                   "top_k: 5, num_groups: 4, top_groups: 2",
                   {"top_k 5", "top_groups 2 groups of 2"}},
        ModelFault{"no_group_score", ", group_score: max", "", {"there is no group_score"}},
        ModelFault{"twice",
                   "dense_layers: 0",
                   "dense_layers: 0-1",
                   {"layer 1 is described twice", ":9:17"}},
        ModelFault{"gap", "1-3", "1-2", {"layer 3 is not described"}},
        ModelFault{"beyond", "1-3", "1-4", {"not below num_layers, 4", ":11:15"}},
        ModelFault{"falling", "1-3", "3-1", {"do not rise"}},
        ModelFault{"range_form", "1-3", "1..3", {"has not the form"}},
        ModelFault{"negative_layer", "dense_layers: 0", "dense_layers: -1", {"counted from 0"}},
        ModelFault{"huge_layer", "1-3", "1-99999999999999999999", {"not below num_layers"}},
        ModelFault{"many_layers", "num_layers: 4", "num_layers: 1000000000", {"0 to 10000"}},
        ModelFault{"no_family", "  family: olmoe\n", "", {"needs a family"}},
        ModelFault{
            "no_width", "hidden_size: 64", "hidden_size: 0", {"needs a family and a hidden_size"}},
        ModelFault{"activation",
                   "intermediate_size: 32",
                   "activation: { name: swish }",
                   {"'swish'", "silu"}},
        ModelFault{
            "dtype", "num_layers: 4", "num_layers: 4\n  dtype: bfloat16", {"'bfloat16'", "bf16"}},
        ModelFault{"zero_scale", "top_k: 2", "top_k: 2, routed_scale: 0", {"routed_scale' is 0"}}),
    case_name<ModelFault>);

}  // namespace
}  // namespace moert::config::test
