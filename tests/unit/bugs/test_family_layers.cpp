// Public bug reports about weights, scales and activations, tried with the families that they were about.
// SPDX-License-Identifier: Apache-2.0
#include "family_models.hpp"

namespace moert::bugs {
namespace {

// Places the experts of `ids` here and leaves the others out.
void keep_local(Loaded& loaded, const std::vector<int32_t>& ids) {
  std::vector<int32_t> map(static_cast<size_t>(loaded.spec().layers.at(0).routing.num_experts), -1);
  for (const int32_t id : ids) map.at(static_cast<size_t>(id)) = id;
  const auto& runner = loaded.model().runner(0);
  const TensorView view(map.data(), MOERT_DTYPE_I32, {static_cast<int64_t>(map.size()), 1});
  moert_error_t error{sizeof(moert_error_t), 0, 0, {}, {}};
  ASSERT_EQ(runner->set_expert_map(runner.self(), view, &error), MOERT_OK) << error.message;
}

// One of two devices applied the scale inside and outside.
TEST(BugFamilyLayers, N68_TheScaleCountsOnceWhereverExpertsAre) {
  const Sizes s{6, 3, 6, 5, 1};
  const std::vector<float> rows = random_rows(9, s.hidden, 31);
  for (const bool on_output : {false, true}) {
    const auto load = [&](double scale) {
      return Loaded(deepseek(s, 1, 1).save(), 64, [&](spec::Model& model) {
        model.layers.at(0).routing.routed_scale = scale;
        model.layers.at(0).routing.scale_on_output = on_output;
      });
    };
    Loaded whole = load(1.5), first = load(1.5), second = load(1.5), unscaled = load(1);
    keep_local(first, {0, 2, 5});
    keep_local(second, {1, 3, 4});
    const std::vector<float> a = first.forward(rows), b = second.forward(rows),
                             all = whole.forward(rows), one = unscaled.forward(rows);
    EXPECT_NE(a, all) << "nothing was left out";
    EXPECT_NE(b, all) << "nothing was left out";
    std::vector<double> sum, scaled;
    for (size_t i = 0; i < all.size(); ++i) {
      sum.push_back(static_cast<double>(a[i]) + static_cast<double>(b[i]));
      scaled.push_back(1.5 * static_cast<double>(one[i]));
    }
    expect_rows(all, sum, s.hidden, on_output ? "parts, scale on output" : "parts");
    expect_rows(all, scaled, s.hidden, on_output ? "scale on output" : "scale");
  }
}

// The factor of an expert was applied to the weight and to its matrix.
TEST(BugFamilyLayers, N71_TheScaleOfAnExpertDoublesExactly) {
  const std::string place = "model.language_model.layers.0.router.";
  // One of two: a gate of zeros is a tie, which goes to expert 0, with weight 1 before its scale.
  Tiny tiny = gemma4({2, 1, 6, 5, 1});
  tiny.set(place + "proj.weight", {2, 6}, std::vector<float>(12, 0.0f));
  const std::vector<float> rows = random_rows(3, 6, 33);
  const auto output = [&](std::vector<float> scales) {
    tiny.set(place + "per_expert_scale", {2}, std::move(scales));
    Loaded loaded(tiny);
    const std::vector<float> out = loaded.forward(rows);
    EXPECT_EQ(loaded.routing.ids, (std::vector<int32_t>{0, 0, 0}));
    return out;
  };
  const std::vector<float> once = output({1, 2}), twice = output({2, 1});
  for (size_t i = 0; i < once.size(); ++i) {
    EXPECT_NE(once[i], 0);
    EXPECT_EQ(twice[i], 2 * once[i]);
  }
  // Both of two: each weighs a half before its scale.
  Tiny both = gemma4({2, 2, 6, 5, 1});
  both.set(place + "proj.weight", {2, 6}, std::vector<float>(12, 0.0f));
  both.set(place + "per_expert_scale", {2}, {1, 2});
  Loaded loaded(both);
  loaded.forward(std::vector<float>(6, 1.0f));
  EXPECT_EQ(loaded.routing.weights, (std::vector<float>{0.5f, 1.0f}));
}

// Softmax before and after the choice were taken for each other.
TEST(BugFamilyLayers, N74_MixtralArcticAndGraniteWeighOneRowAlike) {
  const Sizes s{4, 2, 4, 3, 1};
  const std::vector<float> row = {0.5f, 2.0f, -1.0f, 1.25f};
  const auto want = route_renormalised({row.begin(), row.end()}, s.top_k);
  std::vector<double> output(4, 0.0);
  for (const auto& [expert, weight] : want) {
    const std::vector<double> y = output_of(plain_experts(s)[expert], row.data(), 4);
    for (size_t c = 0; c < 4; ++c) output[c] += weight * y[c];
  }
  for (const Tiny& tiny : {block_sparse("mixtral", s), block_sparse("arctic", s), granite(s)}) {
    Loaded loaded(tiny);
    const std::vector<float> got = loaded.forward(row);
    ASSERT_EQ(loaded.routing.ids, (std::vector<int32_t>{1, 3})) << loaded.spec().family;
    for (size_t j = 0; j < 2; ++j)
      EXPECT_NEAR(loaded.routing.weights[j], want[j].second, 1e-6) << loaded.spec().family;
    expect_rows(got, output, 4, loaded.spec().family);
  }
  // Arctic with one expert keeps its probability; Mixtral divides it by itself.
  const Sizes top1{4, 1, 4, 3, 1};
  Loaded arctic(block_sparse("arctic", top1)), mixtral(block_sparse("mixtral", top1));
  arctic.forward(row);
  mixtral.forward(row);
  double sum = 0;
  for (const float x : row) sum += std::exp(static_cast<double>(x));
  EXPECT_NEAR(arctic.routing.weights[0], std::exp(2.0) / sum, 1e-6);
  EXPECT_EQ(mixtral.routing.weights[0], 1.0f);
}

struct ActivationWords {
  const char* word;
  PlainActivation rule;
};

double gelu_tanh(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

// One function was wired in whatever the config said: same weights, three words, three results.
TEST(BugFamilyLayers, N77_TheConfigsWordDecides) {
  const Sizes s{1, 1, 6, 5, 1};
  const std::vector<float> row = {3, -2, 1, 2, -3, 1};
  const std::vector<ActivationWords> cases = {
      {"silu", silu},
      {"gelu_pytorch_tanh", [](double g, double u) { return gelu_tanh(g) * u; }},
      {"swigluoai", [](double g, double u) {
         const double gate = std::min(g, 1.0), up = std::clamp(u, -1.0, 1.0);
         return gate * sigmoid(1.702 * gate) * (up + 1);
       }}};
  std::vector<std::vector<float>> outputs;
  for (const ActivationWords& c : cases) {
    Tiny tiny = block_sparse("mixtral", s);
    tiny.config["hidden_act"] = c.word;
    tiny.random("model.layers.0.block_sparse_moe.gate.weight", {s.experts, s.hidden});
    if (std::string(c.word) == "swigluoai")
      tiny.config.update({{"swiglu_alpha", 1.702}, {"swiglu_beta", 1}, {"swiglu_limit", 1}});
    Loaded loaded(tiny);
    outputs.push_back(loaded.forward(row));
    expect_rows(outputs.back(), output_of(plain_experts(s).front(), row.data(), s.hidden, c.rule),
                s.hidden, c.word);
  }
  EXPECT_NE(outputs[0], outputs[1]);
  EXPECT_NE(outputs[1], outputs[2]);
}

// A rank to which no token goes hung.
TEST(BugFamilyLayers, N89_TokensOfAnExpertThatIsElsewhereGiveNothing) {
  const Sizes s{4, 1, 4, 3, 1};
  const std::vector<float> rows = {9, 1, 0, 2, 9, 0, 0, 0, 9, 2, 2, 1};  // all go to expert 0
  Loaded here(block_sparse("mixtral", s)), idle(block_sparse("mixtral", s));
  keep_local(here, {0, 1});
  keep_local(idle, {2, 3});
  const std::vector<float> all = here.forward(rows);
  EXPECT_EQ(here.routing.ids, (std::vector<int32_t>{0, 0, 0}));
  for (size_t row = 0; row < 3; ++row)
    EXPECT_NE(std::vector<float>(all.begin() + 4 * static_cast<ptrdiff_t>(row),
                                 all.begin() + 4 * static_cast<ptrdiff_t>(row + 1)),
              std::vector<float>(4, 0.0f));
  EXPECT_EQ(idle.forward(rows), std::vector<float>(rows.size(), 0.0f));
  EXPECT_EQ(idle.routing.ids, here.routing.ids) << "what was chosen does not depend on the place";
}

// Identity experts were counted twice, or their weights went to others.
TEST(BugFamilyLayers, N91_ZeroExpertsReturnTheirInputAtTheirWeight) {
  const Sizes s{2, 2, 3, 4, 1};
  Tiny tiny = longcat(s, 1);
  put_identity(tiny, "model.layers.0.mlp.router.classifier.weight", 3);
  struct Probabilities {
    float first, second, zero;
  };
  for (const Probabilities p : {Probabilities{0.6f, 1e-26f, 0.4f}, {0.5f, 0.2f, 0.3f}}) {
    // The row is its own logits.
    const std::vector<float> row = {std::log(p.first), std::log(p.second), std::log(p.zero)};
    const std::vector<double> y = output_of(plain_experts(s).front(), row.data(), 3);
    for (const double scale : {1.0, 3.0}) {
      tiny.config["routed_scaling_factor"] = scale;
      Loaded loaded(tiny);
      const std::vector<float> got = loaded.forward(row);
      EXPECT_EQ(loaded.routing.ids, (std::vector<int32_t>{0, 2}));
      std::vector<double> want;
      for (size_t c = 0; c < 3; ++c)
        want.push_back(scale * (static_cast<double>(p.first) * y[c] +
                                static_cast<double>(p.zero) * static_cast<double>(row[c])));
      expect_rows(got, want, 3, "scale " + std::to_string(scale));
    }
  }
}

}  // namespace
}  // namespace moert::bugs
