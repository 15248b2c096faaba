// A family that the program has never heard of, given as one file: tests/data/acme_moe. Its checkpoint is
// made here, and the numbers that it must give are computed by plain loops over the same matrices.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "program.hpp"
#include "support/safetensors_edit.hpp"

namespace moert::testing {
namespace {

namespace fs = std::filesystem;
using Row = std::vector<double>;

constexpr size_t kHidden = 6, kWidth = 5, kSharedWidth = 7, kExperts = 4, kTopK = 2, kTokens = 9;
constexpr double kScale = 1.5;

fs::path family_folder() { return data_folder("acme_moe") / "families"; }

// A matrix [out, in].
struct Matrix {
  size_t out, in;
  std::vector<float> values;

  float at(size_t o, size_t i) const { return values[o * in + i]; }
  Row times(const Row& x) const {
    Row y(out, 0.0);
    for (size_t o = 0; o < out; ++o)
      for (size_t i = 0; i < in; ++i) y[o] += static_cast<double>(at(o, i)) * x[i];
    return y;
  }
};

struct Mlp {
  Matrix gate, up, down;

  Row of(const Row& x) const {
    const Row g = gate.times(x), u = up.times(x);
    Row inner(g.size());
    for (size_t i = 0; i < g.size(); ++i) inner[i] = g[i] / (1 + std::exp(-g[i])) * u[i];
    return down.times(inner);
  }
};

struct Layer {
  Matrix router;
  std::vector<Mlp> experts;
  Mlp bystander;
};

class Random {
 public:
  explicit Random(uint32_t seed) : generator_(seed) {}
  Matrix matrix(size_t out, size_t in, float scale = 0.5f) {
    Matrix m{out, in, std::vector<float>(out * in)};
    std::normal_distribution<float> normal(0, scale);
    for (float& v : m.values) v = normal(generator_);
    return m;
  }
  Layer layer() {
    Layer layer{matrix(kExperts, kHidden), {}, mlp(kSharedWidth)};
    for (size_t e = 0; e < kExperts; ++e) layer.experts.push_back(mlp(kWidth));
    return layer;
  }

 private:
  Mlp mlp(size_t width) {
    return {matrix(width, kHidden), matrix(width, kHidden), matrix(kHidden, width)};
  }
  std::mt19937 generator_;
};

// One row of the golden file.
struct Expected {
  std::vector<int32_t> ids;
  std::vector<float> weights, output;
};

// Sigmoid scores, the best two, divided by their sum; the scale is on the routed output alone.
Expected compute(const Layer& layer, const Row& x) {
  const Row logits = layer.router.times(x);
  std::vector<int32_t> order(kExperts);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  order.resize(kTopK);
  Row scores;
  for (const int32_t e : order)
    scores.push_back(1 / (1 + std::exp(-logits[static_cast<size_t>(e)])));
  const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
  Expected expected{order, {}, {}};
  Row total = layer.bystander.of(x);
  for (size_t j = 0; j < kTopK; ++j) {
    const double weight = scores[j] / sum;
    expected.weights.push_back(static_cast<float>(weight));
    const Row y = layer.experts[static_cast<size_t>(order[j])].of(x);
    for (size_t h = 0; h < kHidden; ++h) total[h] += kScale * weight * y[h];
  }
  expected.output.assign(total.begin(), total.end());
  return expected;
}

int64_t number(size_t n) { return static_cast<int64_t>(n); }

void add_transposed(SafetensorsEdit& file, const std::string& name, const Matrix& m) {
  std::vector<float> values;
  for (size_t i = 0; i < m.in; ++i)
    for (size_t o = 0; o < m.out; ++o) values.push_back(m.at(o, i));
  file.add_f32(name, {number(m.in), number(m.out)}, values);
}

// In the names and layouts that the family file speaks of.
void add_layer(SafetensorsEdit& file, const std::string& floor, const Layer& layer) {
  std::vector<float> mouths, ears;
  for (const Mlp& expert : layer.experts) {
    for (size_t i = 0; i < kHidden; ++i)
      for (size_t o = 0; o < kWidth; ++o)
        mouths.insert(mouths.end(), {expert.up.at(o, i), expert.gate.at(o, i)});
    ears.insert(ears.end(), expert.down.values.begin(), expert.down.values.end());
  }
  file.add_f32(floor + "crowd.mouths", {number(kExperts), number(kHidden), 2 * number(kWidth)},
               mouths);
  file.add_f32(floor + "crowd.ears", {number(kExperts * kHidden), number(kWidth)}, ears);
  add_transposed(file, floor + "usher.chart", layer.router);
  std::vector<float> mouth = layer.bystander.up.values;
  mouth.insert(mouth.end(), layer.bystander.gate.values.begin(), layer.bystander.gate.values.end());
  file.add_f32(floor + "bystander.mouth", {2 * number(kSharedWidth), number(kHidden)}, mouth);
  add_transposed(file, floor + "bystander.ear", layer.bystander.down);
  file.add(floor + "stairs.steps", {3, 3});
}

void add_golden(SafetensorsEdit& file, const std::string& place, const Layer& layer,
                const Matrix& rows) {
  std::vector<int32_t> ids;
  std::vector<float> weights, output;
  for (size_t t = 0; t < kTokens; ++t) {
    const auto row = rows.values.begin() + static_cast<ptrdiff_t>(t * kHidden);
    const Expected e = compute(layer, Row(row, row + static_cast<ptrdiff_t>(kHidden)));
    ids.insert(ids.end(), e.ids.begin(), e.ids.end());
    weights.insert(weights.end(), e.weights.begin(), e.weights.end());
    output.insert(output.end(), e.output.begin(), e.output.end());
  }
  file.add_f32(place + "hidden_states", {number(kTokens), number(kHidden)}, rows.values);
  file.add(place + "topk_ids", {number(kTokens), number(kTopK)}, MOERT_DTYPE_I32);
  std::memcpy(file.tensors.back().data.data(), ids.data(), ids.size() * sizeof(int32_t));
  file.add_f32(place + "topk_weights", {number(kTokens), number(kTopK)}, weights);
  file.add_f32(place + "output", {number(kTokens), number(kHidden)}, output);
}

// Two floors with experts above one without.
class AcmeMoe : public ::testing::Test {
 protected:
  AcmeMoe() {
    Random random(20);
    for (const char* floor : {"1", "2"}) {
      const Layer layer = random.layer();
      add_layer(model_, std::string("floor.") + floor + ".", layer);
      add_golden(golden_, std::string("layers.") + floor + ".", layer,
                 random.matrix(kTokens, kHidden, 1));
    }
    model_.add("floor.0.lobby.sofa", {2, 2});
    save();
  }
  void save() {
    write_file(checkpoint() / "config.json", config_.dump(1));
    model_.write(checkpoint() / "model.safetensors");
    golden_.write(checkpoint() / "golden.safetensors");
    write_file(folder_ / "run.yaml", run_yaml(checkpoint()));
  }
  fs::path checkpoint() const { return folder_ / "model"; }
  Ended moert(std::vector<std::string> words, bool with_family = true) const {
    if (with_family) words.insert(words.end(), {"--families", family_folder().string()});
    return run_moert(words);
  }
  Ended run(bool with_family = true) const {
    return moert({"run", (folder_ / "run.yaml").string(), "--json"}, with_family);
  }

  TemporaryFolder folder_;
  SafetensorsEdit model_, golden_;
  Json config_ = {
      {"model_type", "acme_moe"},
      {"dtype", "float32"},
      {"brain",
       {{"girth", kHidden},
        {"floors", {"hall", "crowd", "crowd"}},
        {"squash", "hush"},
        {"crowd",
         {{"members", kExperts}, {"voices", kTopK}, {"girth", kWidth}, {"loudness", kScale}}},
        {"bystander", {{"girth", kSharedWidth}}}}}};
};

TEST_F(AcmeMoe, OneFileMakesItAFamilyAmongTheOthers) {
  const Ended ended = moert({"model", "list"});
  EXPECT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.out, "\nacme_moe ")) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.out, "\nmixtral ")) << MOERT_SHOW(ended);
  EXPECT_FALSE(contains(moert({"model", "list"}, false).out, "acme_moe"));
}

TEST_F(AcmeMoe, EveryTensorIsAccountedFor) {
  const Ended ended = moert({"model", "inspect", checkpoint().string()});
  EXPECT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.out, "complete: 10 tensors used, 3 ignored by rule"))
      << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.out, "megaphone")) << MOERT_SHOW(ended);
}

TEST_F(AcmeMoe, RunsToTheNumbersOfPlainLoops) {
  const Ended ended = run();
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  const Json report = ended.json();
  EXPECT_TRUE(report.at("passed").get<bool>());
  ASSERT_EQ(report.at("layers").size(), 2u);
  for (const Json& layer : report.at("layers"))
    EXPECT_LE(layer.at("check").at("output").at("error").get<double>(), 1e-5) << layer;
}

// Halves, scale and words come from the file: with other words in the config the numbers are others.
TEST_F(AcmeMoe, AnotherConfigGivesOtherNumbers) {
  config_["brain"]["crowd"]["loudness"] = 1.25;
  save();
  EXPECT_EQ(run().code, 1);
  config_["brain"]["squash"] = "scream";
  save();
  const Ended ended = run();
  EXPECT_EQ(ended.code, 2) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.err, "scream")) << MOERT_SHOW(ended);
}

TEST_F(AcmeMoe, AMisspeltTensorIsNamed) {
  model_.rename("floor.2.crowd.ears", "floor.2.crowd.ear");
  save();
  const Ended ended = run();
  EXPECT_EQ(ended.code, 6) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.err, "floor.2.crowd.ear")) << MOERT_SHOW(ended);
}

// Without the file nobody knows what the tensors mean; what the config says in common words is told.
TEST_F(AcmeMoe, WithoutTheFileItIsDescribedButRefused) {
  EXPECT_NE(run(false).code, 0);
  config_.update({{"num_hidden_layers", 3},
                  {"hidden_size", kHidden},
                  {"num_experts", kExperts},
                  {"num_experts_per_tok", kTopK},
                  {"moe_intermediate_size", kWidth},
                  {"norm_topk_prob", true}});
  save();
  EXPECT_EQ(run().code, 0) << "the family does not read the common words";
  const Ended described = moert({"model", "describe", checkpoint().string()}, false);
  EXPECT_EQ(described.code, 0) << MOERT_SHOW(described);
  EXPECT_TRUE(contains(described.out, "num_experts: 4")) << MOERT_SHOW(described);
  for (const Ended& ended :
       {moert({"model", "inspect", checkpoint().string()}, false), run(false)}) {
    EXPECT_EQ(ended.code, 4) << MOERT_SHOW(ended);
    EXPECT_TRUE(contains(ended.out + ended.err, "'acme_moe'")) << MOERT_SHOW(ended);
  }
}

}  // namespace
}  // namespace moert::testing
