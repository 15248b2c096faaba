// Public bug reports about routing: bias precision, ties, NaN, groups, normalising. Logits are made by
// hand: with H = E and an identity gate, a row of hidden states is the row of logits.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "tiny_model.hpp"

namespace moert::bugs {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

void identity_gate(Tiny& tiny, int64_t n) {
  std::vector<float> gate(static_cast<size_t>(n * n), 0.0f);
  for (int64_t i = 0; i < n; ++i) gate[static_cast<size_t>(i * n + i)] = 1;
  tiny.set("model.layers.0.mlp.gate.weight", {n, n}, std::move(gate));
}

Tiny softmax_model(int64_t experts, int64_t top_k) {
  Tiny tiny = olmoe({experts, top_k, experts, 3, 1});
  identity_gate(tiny, experts);
  return tiny;
}

Tiny sigmoid_model(int64_t experts, int64_t top_k, const std::vector<float>& bias,
                   int64_t groups = 1, int64_t top_groups = 1) {
  Tiny tiny = deepseek({experts, top_k, experts, 3, 1}, groups, top_groups);
  identity_gate(tiny, experts);
  tiny.set("model.layers.0.mlp.gate.e_score_correction_bias", {experts}, bias);
  return tiny;
}

// The logit whose sigmoid is p.
float logit(double p) { return static_cast<float>(std::log(p / (1 - p))); }

using Ids = std::vector<int32_t>;

Ids sorted(Ids ids) {
  std::sort(ids.begin(), ids.end());
  return ids;
}

// Rows of f32 bias lost their differences in bf16.
TEST(BugRouting, N49_N51_N52_TheBiasKeepsEveryBit) {
  std::vector<float> even(256), offset(256);
  for (size_t i = 0; i < 256; ++i) {
    const size_t place = (i * 97) % 256;  // a permutation: the largest are not the last
    even[place] = 6.817f + static_cast<float>(i) * (7.063f - 6.817f) / 255;
    offset[place] = 34.5f + static_cast<float>(i) * 0.001f;
  }
  for (const std::vector<float>& bias : {even, offset}) {
    Loaded loaded(sigmoid_model(256, 8, bias));
    loaded.forward(std::vector<float>(256, 0.0f));
    Ids want(256);
    for (size_t i = 0; i < 256; ++i) want[i] = static_cast<int32_t>(i);
    std::sort(want.begin(), want.end(), [&](int32_t a, int32_t b) {
      return bias[static_cast<size_t>(a)] > bias[static_cast<size_t>(b)];
    });
    want.resize(8);
    EXPECT_EQ(loaded.routing.ids, want);
  }
  Loaded close(sigmoid_model(2, 1, {1.0f, 1.0f + 0x1p-12f}));
  close.forward({0, 0});
  EXPECT_EQ(close.routing.ids, Ids{1});
}

// The weight was taken from the biased score.
TEST(BugRouting, N54_WeightsComeFromUnbiasedScores) {
  Loaded loaded(sigmoid_model(4, 2, {10, 0, 0, 0}));
  loaded.forward({logit(.1), logit(.9), logit(.8), logit(.7)});
  EXPECT_EQ(loaded.routing.ids, (Ids{0, 1}));
  EXPECT_NEAR(loaded.routing.weights[0], 0.1, 1e-6);
  EXPECT_NEAR(loaded.routing.weights[1], 0.9, 1e-6);
}

// A row of NaN chose expert 0 k times, or wrote out of bounds.
TEST(BugRouting, N56_N58_OddRowsGiveDistinctValidIdsAndTouchNoOtherRow) {
  const std::vector<float> fine = {1, 3, 2, 0, -1};
  const std::vector<Tiny> models = {softmax_model(5, 3), sigmoid_model(5, 3, {0, 0, 0, 0, 0})};
  for (const Tiny& tiny : models) {
    Loaded loaded(tiny);
    loaded.forward(fine);
    const Ids want = loaded.routing.ids;
    const std::vector<float> weights = loaded.routing.weights;
    for (const float odd : {kNan, kInf, -kInf}) {
      // One odd hidden value makes every logit of the row NaN or infinite: 0 * inf is NaN.
      std::vector<float> rows(5, odd);
      rows.insert(rows.end(), fine.begin(), fine.end());
      rows.insert(rows.end(), {0, odd, 0, 0, 0});
      loaded.forward(rows);
      for (int row : {0, 2}) {
        const Ids ids = sorted(
            {loaded.routing.ids.begin() + row * 3, loaded.routing.ids.begin() + row * 3 + 3});
        EXPECT_TRUE(ids[0] >= 0 && ids[0] < ids[1] && ids[1] < ids[2] && ids[2] < 5) << odd;
      }
      EXPECT_EQ(Ids(loaded.routing.ids.begin() + 3, loaded.routing.ids.begin() + 6), want);
      EXPECT_EQ(std::vector<float>(loaded.routing.weights.begin() + 3,
                                   loaded.routing.weights.begin() + 6),
                weights);
    }
  }
}

// Padding lanes held 0 and won against negative logits.
TEST(BugRouting, N59_NegativeLogitsAndAnOddNumberOfExperts) {
  Loaded loaded(softmax_model(6, 2));
  loaded.forward({-9, -4, -1, -7, -2, -8});
  EXPECT_EQ(loaded.routing.ids, (Ids{2, 4}));
}

// Chosen entries were set to -inf, and then -inf was the best that was left.
TEST(BugRouting, N61_InfinitelyBadBiases) {
  Loaded loaded(sigmoid_model(5, 3, {-kInf, -kInf, 0, -kInf, -kInf}));
  loaded.forward({0, 0, 0, 0, 0});
  EXPECT_EQ(loaded.routing.ids, (Ids{2, 0, 1})) << "ties go to the lower id";
}

// Lanes beyond a group of three carried index 0; masks of 0 beat negative scores.
TEST(BugRouting, N62_N64_DroppedGroupsStayDropped) {
  // Two groups of three; all biased scores are negative; the second group is better.
  Loaded loaded(sigmoid_model(6, 2, {-5, -5, -5, -5, -5, -5}, 2, 1));
  loaded.forward({logit(.5), logit(.2), logit(.2), logit(.4), logit(.45), logit(.1)});
  EXPECT_EQ(loaded.routing.ids, (Ids{4, 3}));
  // The better group holds experts that are worse than -inf ones can be: only two are finite.
  Loaded infinite(sigmoid_model(6, 3, {-kInf, -kInf, -kInf, 1, 1, -kInf}, 2, 1));
  infinite.forward({0, 0, 0, 0, 0, 0});
  EXPECT_EQ(sorted(infinite.routing.ids), (Ids{3, 4, 5}))
      << "expert 0 belongs to the dropped group";
}

// Maximum and sum of two were mixed up; groups of one have no second.
TEST(BugRouting, N66_GroupsOfOneAndTheSumOfTwo) {
  Loaded ones(sigmoid_model(4, 2, {0, 0, 0, 0}, 4, 2));
  ones.forward({1, 4, 2, 3});
  EXPECT_EQ(ones.routing.ids, (Ids{1, 3}));
  // Group 0 has the best expert, group 1 the best pair.
  Loaded pairs(sigmoid_model(4, 2, {0, 0, 0, 0}, 2, 1));
  pairs.forward({logit(.9), logit(.1), logit(.6), logit(.7)});
  EXPECT_EQ(pairs.routing.ids, (Ids{3, 2}));
}

// Kept groups with fewer experts than k.
TEST(BugRouting, N67_GroupsThatCannotHoldKAreRefused) {
  Tiny tiny = sigmoid_model(8, 3, std::vector<float>(8, 0), 4, 1);
  const Error error = error_of([&] { Loaded loaded(tiny); });
  EXPECT_EQ(error.fault(), Fault::usage);
  Loaded one_of_two(sigmoid_model(8, 1, std::vector<float>(8, 0), 4, 2));
  one_of_two.forward({0, 0, 5, 0, 0, 0, 0, 0});
  EXPECT_EQ(one_of_two.routing.ids, (Ids{2}));
}

// The softmax was taken after the choice of one: its weight was always 1.
TEST(BugRouting, N73_TopOneKeepsItsProbability) {
  Loaded loaded(softmax_model(3, 1));
  loaded.forward({1, 2, 0});
  const double p = std::exp(2.0) / (std::exp(1.0) + std::exp(2.0) + 1);
  EXPECT_EQ(loaded.routing.ids, Ids{1});
  EXPECT_NEAR(loaded.routing.weights[0], p, 1e-6);
}

// Softmax then top-k, with and without renormalising, were confused.
TEST(BugRouting, N74_RenormalisingIsTheModelsOwn) {
  const std::vector<float> row = {0.5f, 2.0f, -1.0f, 1.0f};
  double sum = 0;
  for (const float x : row) sum += std::exp(static_cast<double>(x));
  const double a = std::exp(2.0) / sum, b = std::exp(1.0) / sum;
  Tiny plain = softmax_model(4, 2), normal = softmax_model(4, 2);
  normal.config["norm_topk_prob"] = true;
  Loaded one(plain), other(normal);
  one.forward(row);
  other.forward(row);
  EXPECT_NEAR(one.routing.weights[0], a, 1e-6);
  EXPECT_NEAR(one.routing.weights[1], b, 1e-6);
  EXPECT_NEAR(other.routing.weights[0], a / (a + b), 1e-6);
  EXPECT_NEAR(other.routing.weights[1], b / (a + b), 1e-6);
}

// Ties between logits go to the lower id, in every place of the row.
TEST(BugRouting, TiesGoToTheLowerId) {
  Loaded loaded(softmax_model(6, 3));
  loaded.forward({1, 2, 2, 1, 2, 1, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(loaded.routing.ids, (Ids{1, 2, 4, 0, 1, 2}));
}

}  // namespace
}  // namespace moert::bugs
