// Whole layers through the plugins of this build: token ids, made-up routing, models that are not run.
// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <set>

#include "unit/bugs/tiny_model.hpp"

namespace moert::runtime {
namespace {

using bugs::error_of;
using bugs::expect_text;
using bugs::Loaded;
using bugs::random_rows;

std::filesystem::path data(const char* name) {
  return std::filesystem::path(MOERT_SOURCE_DIR) / "tests/data" / name;
}

// --- token ids ----------------------------------------------------------------------------------

// DeepSeek-V4: layer 0 routes by the tokens' numbers, layer 1 does not.
class TokenIds : public ::testing::Test {
 protected:
  static constexpr int64_t kTokens = 3, kVocabulary = 48, kSlots = 3;

  void forward(size_t layer) {
    loaded_.context().forward(layer);
    loaded_.context().read_routing(layer, loaded_.routing, true);
  }
  // Rows of the table as it is stored.
  std::vector<int32_t> table_rows(const std::vector<int64_t>& tokens) {
    const weights::Checkpoint& checkpoint = loaded_.model().checkpoint();
    const weights::TensorInfo* info = checkpoint.find("layers.0.ffn.gate.tid2eid");
    EXPECT_NE(info, nullptr);
    const auto* table = static_cast<const int64_t*>(checkpoint.view(*info).get()->data);
    std::vector<int32_t> ids;
    for (const int64_t token : tokens)
      for (int64_t j = 0; j < kSlots; ++j)
        ids.push_back(static_cast<int32_t>(table[token * kSlots + j]));
    return ids;
  }
  void expect_missing() {
    const Error error = error_of([&] { forward(0); });
    EXPECT_EQ(error.fault(), Fault::usage);
    expect_text(error, {"layer 0 routes by token ids, but none are given", "give the token ids"});
  }

  Loaded loaded_{data("deepseek-v4-f32"), 8};
  const std::vector<float> hidden_ = random_rows(kTokens, 20, 1);
};

TEST_F(TokenIds, ChooseTheRowOfTheTable) {
  for (const std::vector<int64_t>& tokens :
       {std::vector<int64_t>{0, 47, 5}, std::vector<int64_t>{5, 5, 5}}) {
    loaded_.context().set_hidden(hidden_.data(), kTokens);
    loaded_.context().set_token_ids(tokens.data());
    forward(0);
    EXPECT_EQ(loaded_.routing.ids, table_rows(tokens));
  }
}

TEST_F(TokenIds, AreMissedByTheLayerThatReadsThem) {
  loaded_.context().set_hidden(hidden_.data(), kTokens);
  expect_missing();
  EXPECT_NO_THROW(forward(1)) << "layer 1 routes by its logits";
}

TEST_F(TokenIds, LastUntilTheNextRows) {
  const std::vector<int64_t> tokens = {1, 2, 3};
  loaded_.context().set_hidden(hidden_.data(), kTokens);
  loaded_.context().set_token_ids(tokens.data());
  forward(0);
  forward(1);
  forward(0);
  EXPECT_EQ(loaded_.routing.ids, table_rows(tokens)) << "still there for the same rows";
  loaded_.context().set_hidden(hidden_.data(), kTokens);
  expect_missing();
  loaded_.context().set_token_ids(tokens.data());
  EXPECT_NO_THROW(forward(0));
  loaded_.context().set_token_ids(nullptr);
  expect_missing();
}

// What stands in a padded row is nobody's.
TEST_F(TokenIds, OfPaddedRowsMayBeAnything) {
  const std::vector<int64_t> tokens = {7, INT64_MAX, 3};
  const std::vector<uint8_t> valid = {1, 0, 1}, other = {0, 1, 1};
  loaded_.context().set_hidden(hidden_.data(), kTokens);
  loaded_.context().set_token_ids(tokens.data(), valid.data());
  loaded_.context().forward(0, nullptr, valid.data());
  loaded_.context().read_routing(0, loaded_.routing, true);
  std::vector<int32_t> want = table_rows({7, 0, 3});
  std::fill_n(want.begin() + kSlots, kSlots, -1);
  EXPECT_EQ(loaded_.routing.ids, want);
  const Error error =
      error_of([&] { loaded_.context().set_token_ids(tokens.data(), other.data()); });
  EXPECT_EQ(error.fault(), Fault::usage);
}

TEST_F(TokenIds, BeyondTheVocabularyAreAnError) {
  loaded_.context().set_hidden(hidden_.data(), kTokens);
  for (const int64_t wrong : {kVocabulary, int64_t{-2}, INT64_MAX, INT64_MIN}) {
    const std::vector<int64_t> tokens = {1, wrong, 3};
    const Error error = error_of([&] { loaded_.context().set_token_ids(tokens.data()); });
    EXPECT_EQ(error.fault(), Fault::usage);
    expect_text(error, {"token id " + std::to_string(wrong) + " of row 1 is not below 48"});
    expect_missing();
  }
}

// A row of forced ids needs no table, one of -1 still does; a row without a token has no experts.
TEST_F(TokenIds, ReplayAndAbsentTokens) {
  const std::vector<int64_t> tokens = {1, -1, 3};
  std::vector<int32_t> forced(kTokens * kSlots, -1);
  for (int32_t j = 0; j < kSlots; ++j) forced[static_cast<size_t>(2 * kSlots + j)] = 7 - j;
  loaded_.context().set_hidden(hidden_.data(), kTokens);
  loaded_.context().set_token_ids(tokens.data());
  loaded_.context().forward(0, forced.data());
  loaded_.context().read_routing(0, loaded_.routing, false);
  std::vector<int32_t> want = table_rows({1});
  want.insert(want.end(), {-1, -1, -1, 7, 6, 5});
  EXPECT_EQ(loaded_.routing.ids, want);
}

// --- made-up routing ----------------------------------------------------------------------------

class Simulated : public ::testing::Test {
 protected:
  // Ids that each layer's rows draw.
  std::vector<std::vector<int32_t>> draw(const char* folder, const std::string& distribution,
                                         int64_t seed, int64_t tokens = 64) {
    spec::Model spec = bugs::families().resolve(data(folder));
    ModelSettings settings;
    settings.device = "cpu";
    settings.max_tokens = tokens;
    settings.dtype = MOERT_DTYPE_F32;
    settings.simulate = distribution;
    settings.seed = seed;
    spec::Tensors rules = bugs::families().tensors(spec);
    Model model(bugs::session(), std::move(spec), std::move(rules), settings);
    model.load();
    ForwardContext context(model, tokens);
    const std::vector<float> hidden = random_rows(tokens, model.spec().hidden_size, 3);
    std::vector<std::vector<int32_t>> ids;
    for (size_t layer = 0; layer < model.num_layers(); ++layer) {
      context.set_hidden(hidden.data(), tokens);
      context.forward(layer);
      Routing routing;
      context.read_routing(layer, routing, false);
      expect_sound(routing, model.layer(layer).routing);
      ids.push_back(routing.ids);
    }
    return ids;
  }
  static void expect_sound(const Routing& routing, const spec::Routing& rule) {
    EXPECT_EQ(rule.method, "simulated");
    for (int64_t t = 0; t < routing.tokens; ++t) {
      const auto first = routing.ids.begin() + t * routing.top_k;
      const std::set<int32_t> ids(first, first + routing.top_k);
      EXPECT_EQ(static_cast<int64_t>(ids.size()), routing.top_k) << "distinct";
      EXPECT_GE(*ids.begin(), 0);
      EXPECT_LT(*ids.rbegin(), rule.rows());
    }
    for (const float weight : routing.weights)
      EXPECT_FLOAT_EQ(weight, 1.0f / static_cast<float>(routing.top_k));
  }
};

TEST_F(Simulated, TheSeedDecides) {
  const auto one = draw("olmoe-f32", "uniform", 1);
  EXPECT_EQ(draw("olmoe-f32", "uniform", 1), one);
  EXPECT_NE(draw("olmoe-f32", "uniform", 2), one);
  EXPECT_NE(one[0], one[1]) << "layers draw for themselves";
}

TEST_F(Simulated, TheDistributionIsTheOneAskedFor) {
  const auto share_of_0 = [&](const char* distribution) {
    const std::vector<int32_t> ids = draw("olmoe-f32", distribution, 5, 512)[0];
    return static_cast<double>(std::count(ids.begin(), ids.end(), 0)) / 512;
  };
  EXPECT_NEAR(share_of_0("uniform"), 3 / 8.0, 0.08);
  EXPECT_GT(share_of_0("zipf"), 0.6);
  EXPECT_LT(share_of_0("normal"), 0.25);
}

// What the model's own rule reads is not there to be missed: groups, biases, tables of tokens.
TEST_F(Simulated, NeedsNothingOfTheModelsOwnRule) {
  for (const char* folder : {"deepseek-v3-f32", "deepseek-v4-f32", "gemma4-f32"})
    EXPECT_FALSE(draw(folder, "uniform", 1).empty()) << folder;
}

TEST_F(Simulated, DrawsZeroExpertsToo) {
  const std::vector<int32_t> ids = draw("longcat-flash-f32", "uniform", 1)[0];
  EXPECT_GE(*std::max_element(ids.begin(), ids.end()), 8);
}

TEST_F(Simulated, OtherWordsAreRefused) {
  const Error error = error_of([&] { draw("olmoe-f32", "gauss", 1); });
  EXPECT_EQ(error.fault(), Fault::refused);
  expect_text(error, {"router", "gauss"});
}

// --- models that are described, but not run -----------------------------------------------------

TEST(RequireSupported, SaysEveryReason) {
  spec::Model model = bugs::families().resolve(data("olmoe-f32"));
  EXPECT_NO_THROW(require_supported(model));
  model.unsupported = {"its router reads two rows"};
  const Error one = error_of([&] { require_supported(model); });
  EXPECT_EQ(one.fault(), Fault::refused);
  expect_text(
      one, {"the model cannot be run: its router reads two rows", "olmoe-f32", "moert model list"});
  model.unsupported = {"first reason", "second reason", "third reason"};
  const Error three = error_of([&] { require_supported(model); });
  EXPECT_EQ(three.problem(), "the model cannot be run: first reason");
  EXPECT_EQ(three.remedy(), "also: second reason; third reason");
}

TEST(RequireSupported, GuardsTheModelItself) {
  const Error error = error_of([] {
    Loaded(data("olmoe-f32"), 4, [](spec::Model& model) { model.unsupported = {"a reason"}; });
  });
  EXPECT_EQ(error.fault(), Fault::refused);
}

}  // namespace
}  // namespace moert::runtime
