// router: rows computed by hand.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "router.hpp"

namespace moert::conformance {
namespace {

constexpr uint32_t kRenorm = MOERT_ROUTING_RENORMALIZE;
constexpr uint32_t kBias = MOERT_ROUTING_SELECTION_BIAS;
constexpr uint32_t kGroup = MOERT_ROUTING_GROUPED;
constexpr uint32_t kExpertScale = MOERT_ROUTING_EXPERT_SCALE;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kAny = std::numeric_limits<double>::quiet_NaN();

// One row, what it is loaded with, and what must come out.
struct Hand {
  RouterCase c;
  std::vector<float> logits;
  std::vector<int32_t> ids;
  std::vector<double> weights;
  double margin = kAny;
  std::vector<float> bias = {};
  std::vector<double> expert_scale = {};
};

const float kLn3 = std::log(3.0f);
const float kLn9 = std::log(9.0f);

const std::vector<Hand> kScores = {
    // top-1 of a softmax weighs its probability; divided by the sum, it weighs 1.
    {{"softmax_top1", 2, 1}, {0, kLn3}, {1}, {0.75}, 0.5},
    {{"softmax_renorm_top1", 2, 1, "softmax", kRenorm}, {0, kLn3}, {1}, {1}, 0.5},
    {{"sigmoid_scale", 3, 2, "sigmoid", 0, 0, 0, nullptr, 2.5},
     {0, -1000, kLn3},
     {2, 0},
     {1.875, 1.25},
     0.5},
    // 800 is beyond what exp can do, and at -40 adding 1 to exp loses all of it.
    {{"sqrtsoftplus", 5, 5, "sqrtsoftplus"},
     {0, 800, -40, 20, 25},
     {1, 4, 3, 0, 2},
     {28.284271247461901, 5.0000000000013888, 4.4721359552300234, 0.83255461115769776,
      2.061153622438558e-09},
     HUGE_VAL},
    // 9/13, 3/13 and 1/13: without the last one 3/4 and 1/4.
    {{"softmax_of_three", 3, 2}, {kLn3, 0, kLn9}, {2, 0}, {9 / 13.0, 3 / 13.0}, 2 / 13.0},
    {{"softmax_topk", 3, 2, "softmax_topk"}, {kLn3, 0, kLn9}, {2, 0}, {0.75, 0.25}, std::log(3.0)},
    {{"softmax_topk_top1", 2, 1, "softmax_topk"}, {0, kLn3}, {1}, {1}, std::log(3.0)},
    {{.label = "softcap", .e = 2, .k = 1, .params = {{"logit_softcap", "5"}}},
     {0, 15},
     {1},
     {0.99314074644779351}},
    {{.label = "logit_scale", .e = 2, .k = 1, .params = {{"logit_scale", "0.5"}}},
     {0, kLn9},
     {1},
     {0.75}},
    // The scale comes before the cap: 5 tanh(3 * 5 / 5).
    {{.label = "scale_then_cap",
      .e = 2,
      .k = 1,
      .params = {{"logit_softcap", "5"}, {"logit_scale", "3"}}},
     {0, 5},
     {1},
     {0.99314074644779351}},
};

const std::vector<Hand> kWeights = {
    // A sum of 4e-9 is raised to the floor, one of 3/2 is not.
    {{.label = "floor_holds",
      .e = 2,
      .k = 2,
      .scoring = "sigmoid",
      .flags = kRenorm,
      .params = {{"renormalize_floor", "0.5"}}},
     {-20, -20},
     {0, 1},
     {4.1223072363804072e-09, 4.1223072363804072e-09},
     HUGE_VAL},
    {{.label = "floor_passed",
      .e = 2,
      .k = 2,
      .scoring = "sigmoid",
      .flags = kRenorm,
      .params = {{"renormalize_floor", "0.5"}}},
     {kLn3, kLn3},
     {0, 1},
     {0.5, 0.5},
     HUGE_VAL},
    {{"no_mass_to_divide", 2, 2, "sigmoid", kRenorm},
     {-HUGE_VALF, -HUGE_VALF},
     {0, 1},
     {0, 0},
     HUGE_VAL},
    {{"expert_scale_ratio", 2, 2, "softmax", kExpertScale | kRenorm},
     {0, 0},
     {0, 1},
     {0.5, 1},
     HUGE_VAL,
     {},
     {1, 2}},
    // It is the last factor: it neither chooses nor takes part in the sum.
    {{"expert_scale_before_scale", 3, 2, "softmax", kExpertScale | kRenorm, 0, 0, nullptr, 2},
     {kLn3, 0, -100},
     {0, 1},
     {1.5 * 0.25, -0.5},
     kAny,
     {},
     {0.25, -1, 1000}},
    // Chosen by score + bias, weighed by the score.
    {{"bias_stays_out_of_weights", 4, 2, "sigmoid", kBias},
     {-kLn9, kLn9, kLn3, 0},
     {0, 1},
     {0.1, 0.9},
     0.15,
     {10, 0, 0, 0}},
    // The 3rd best logit stays out with its group.
    {{.label = "group_topk",
      .e = 8,
      .k = 4,
      .scoring = "sigmoid",
      .flags = kGroup,
      .groups = 2,
      .top_groups = 2,
      .method = "group_topk"},
     {9, 8, 7, 6, 0, 1, 2, 3},
     {0, 1, 7, 6},
     {0.99987660542401377, 0.99966464986953352, 0.95257412682243322, 0.88079707797788244},
     0.99966464986953352 - 0.99908894880559936},
};

const std::vector<Hand> kOdd = {
    {{"odd_softmax_nan", 3, 2}, {kNan, kNan, kNan}, {0, 1}, {0, 0}},
    {{"odd_softmax_nan_renorm", 3, 2, "softmax", kRenorm}, {kNan, kNan, kNan}, {0, 1}, {0, 0}},
    {{"odd_softmax_one_number", 3, 2}, {kNan, -HUGE_VALF, 0}, {2, 0}, {1, 0}},
    {{"odd_softmax_infinities", 4, 3}, {0, HUGE_VALF, kNan, HUGE_VALF}, {1, 3, 0}, {0.5, 0.5, 0}},
    {{"odd_softmax_topk_nan", 3, 2, "softmax_topk"}, {kNan, kNan, kNan}, {0, 1}, {0, 0}},
    {{"odd_softmax_topk_infinities", 3, 2, "softmax_topk"},
     {HUGE_VALF, 0, HUGE_VALF},
     {0, 2},
     {0.5, 0.5}},
    {{"odd_sigmoid", 4, 3, "sigmoid"}, {kNan, 0, HUGE_VALF, -HUGE_VALF}, {2, 1, 0}, {1, 0.5, 0}},
    {{"odd_sqrtsoftplus_renorm_infinities", 3, 2, "sqrtsoftplus", kRenorm},
     {HUGE_VALF, 0, HUGE_VALF},
     {0, 2},
     {0.5, 0.5}},
    // Plus infinity and a bias of minus infinity: nothing speaks for expert 0.
    {{"odd_infinities_meet", 2, 1, "softmax_topk", kBias},
     {HUGE_VALF, 1},
     {1},
     {1},
     HUGE_VAL,
     {-HUGE_VALF, 0}},
    {{.label = "odd_sparsemixer_infinities", .e = 4, .k = 2, .method = "sparsemixer"},
     {0, HUGE_VALF, HUGE_VALF, kNan},
     {1, 2},
     {0.5, 1}},
};

const std::vector<Hand> kSparsemixer = {
    // (2 - 1.99) / 2 is below 0.02, the others are not. Without expert 0, only expert 1 is left.
    {{.label = "sparsemixer", .e = 4, .k = 2, .method = "sparsemixer"},
     {2, 1.99f, 1, -3},
     {0, 1},
     {0.50249997916687500, 1}},
    // Below zero the distance is relative to the lower one: 0.75 / 1.75 stays, 1.75 / 2.75 does not;
    // without expert 1, 1 / 2.75 stays.
    {{.label = "sparsemixer_below_zero",
      .e = 4,
      .k = 2,
      .method = "sparsemixer",
      .params = {{"jitter_eps", "0.25"}}},
     {-2.75f, -1, -9, -1.75f},
     {1, 3},
     {0.67917869917539297, 0.73105857863000488}},
    {{.label = "sparsemixer_zeros", .e = 4, .k = 2, .method = "sparsemixer"},
     {0, 0, 0, 0},
     {0, 1},
     {0.25, 1 / 3.0},
     0},
    // Twice 0.26 lets 1 stay beside 2; without the 2, 0 is too far from 1.
    {{.label = "sparsemixer_jitter_scale",
      .e = 3,
      .k = 2,
      .scale = 2,
      .method = "sparsemixer",
      .params = {{"jitter_eps", "0.26"}}},
     {0, 2, 1},
     {1, 2},
     {2 * 0.73105857863000488, 2}},
};

void by_hand(const Feature& feature, const Hand& hand) {
  RouterRig rig(feature, hand.c, false);
  if (!hand.bias.empty()) rig.tensors().bias = hand.bias;
  if (!hand.expert_scale.empty())
    rig.tensors().expert_scale = rounded(MOERT_DTYPE_F32, hand.expert_scale);
  rig.finish();
  const Decisions got = rig.route(hand.logits);
  EXPECT_EQ(got.ids, hand.ids);
  for (size_t j = 0; j < hand.weights.size(); ++j)
    EXPECT_NEAR(static_cast<double>(got.weights[j]), hand.weights[j],
                1e-6 * std::fabs(hand.weights[j]))
        << "slot " << j;
  if (!std::isnan(hand.margin)) {
    EXPECT_TRUE(static_cast<double>(got.margins[0]) == hand.margin ||
                std::fabs(static_cast<double>(got.margins[0]) - hand.margin) <= 1e-6)
        << "margin " << got.margins[0] << ", want " << hand.margin;
  }
}

// Biases of -5 everywhere: masking with 0 would choose from groups that were dropped.
void negative_bias(const Feature& feature) {
  const RouterCase c = {"negative_bias", 8, 3, "sigmoid", kGroup | kBias, 2, 1, "top2_sum"};
  RouterRig rig(feature, c, false);
  rig.tensors().bias = std::vector<float>(8, -5.0f);
  rig.finish();
  const std::vector<float> logits = {1, 2, 0, 1.5f, 3, 2.5f, -1, -2};
  const Decisions got = rig.route(logits);
  EXPECT_EQ(got.ids, (std::vector<int32_t>{4, 5, 6}));
  expect_decision(c, got, 0, decide(c, rig.tensors(), logits.data()));
}

// A bias that only f32 tells apart decides.
void bias_keeps_its_bits(const Feature& feature) {
  RouterRig rig(feature, {"bias_bits", 4, 1, "sigmoid", kBias}, false);
  rig.tensors().bias = {0.5f, 0.5f, 0.5f + 0x1p-22f, 0.5f};
  rig.finish();
  const Decisions got = rig.route({-30, -30, -30, -30});  // scores far below the bias's last bit
  EXPECT_EQ(got.ids, std::vector<int32_t>{2});
}

// Whether experts that nothing but minus infinity speaks for are chosen once each.
void nothing_left_to_choose(const Feature& feature) {
  RouterRig rig(feature, {"bias_infinite", 4, 3, "sigmoid", kBias}, false);
  rig.tensors().bias = {-HUGE_VALF, -HUGE_VALF, 0, -HUGE_VALF};
  rig.finish();
  EXPECT_EQ(rig.route({1, 2, 3, 4}).ids, (std::vector<int32_t>{2, 0, 1}));
}

// A forced expert that the sparsemixer masks weighs 0; one that it does not, its share.
void forced_sparsemixer(const Feature& feature) {
  RouterRig rig(feature, {.label = "forced", .e = 4, .k = 2, .method = "sparsemixer"});
  const Decisions got = rig.route({2, 1.99f, 1, -3, 2, 1.99f, 1, -3}, {1, 0, 0, 2});
  EXPECT_EQ(got.ids, (std::vector<int32_t>{1, 0, 0, 2}));
  const std::vector<double> want = {1 - 0.502499979166875, 1, 0.502499979166875, 0};
  for (size_t j = 0; j < want.size(); ++j)
    EXPECT_NEAR(static_cast<double>(got.weights[j]), want[j], 1e-6) << "slot " << j;
}

}  // namespace

void add_router_hand(const Feature& feature) {
  for (const auto& part : {kScores, kWeights, kOdd, kSparsemixer})
    for (const Hand& hand : part)
      add(feature, "HandComputed", hand.c.label, [=] { by_hand(feature, hand); });
  add(feature, "HandComputed", "forced_sparsemixer", [=] { forced_sparsemixer(feature); });
  add(feature, "DroppedGroupsStayDropped", "", [=] { negative_bias(feature); });
  add(feature, "BiasKeepsItsBits", "", [=] { bias_keeps_its_bits(feature); });
  add(feature, "NothingLeftToChoose", "", [=] { nothing_left_to_choose(feature); });
}

}  // namespace moert::conformance
