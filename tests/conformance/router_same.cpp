// router: rules that can be said in two ways must agree.
// SPDX-License-Identifier: Apache-2.0
#include "router.hpp"

namespace moert::conformance {
namespace {

constexpr uint32_t kRenorm = MOERT_ROUTING_RENORMALIZE;
constexpr uint32_t kBias = MOERT_ROUTING_SELECTION_BIAS;
constexpr uint32_t kGroup = MOERT_ROUTING_GROUPED;

struct Same {
  const char* label;
  RouterCase a, b;
  bool margins = true;  // whether both leave out the same experts, scored alike
};
const std::vector<Same> kSame = {
    {"softmax_topk_renormalizes",
     {"same", 32, 4, "softmax_topk"},
     {"same", 32, 4, "softmax", kRenorm},
     false},
    {"one_group_is_none",
     {"same", 32, 4, "sigmoid", kGroup, 1, 1, "max"},
     {"same", 32, 4, "sigmoid"}},
    {"all_groups_are_none",
     {"same", 32, 4, "sigmoid", kGroup | kBias, 8, 8, "top2_sum"},
     {"same", 32, 4, "sigmoid", kBias}},
    {"enough_groups_of_one_are_none",
     {"same", 32, 4, "softmax", kGroup, 32, 4, "max"},
     {"same", 32, 4},
     false},
    {"one_group_gives_all",
     {.label = "same",
      .e = 32,
      .k = 4,
      .flags = kGroup | kBias,
      .groups = 1,
      .top_groups = 1,
      .method = "group_topk"},
     {"same", 32, 4, "softmax", kBias}},
    {"parameters_that_change_nothing",
     {.label = "same",
      .e = 32,
      .k = 4,
      .flags = kRenorm,
      .params = {{"logit_scale", "1"}, {"logit_softcap", "0"}, {"renormalize_floor", "0.0"}}},
     {"same", 32, 4, "softmax", kRenorm}},
};

void same_rule(const Feature& feature, const Same& same) {
  constexpr int64_t kTokens = 16;
  RouterRig a(feature, same.a);
  RouterRig b(feature, same.b);
  const std::vector<float> logits = clear_logits(same.b, b.random(), kTokens, b.tensors());
  const Decisions left = a.route(logits);
  const Decisions right = b.route(logits);
  EXPECT_EQ(left.ids, right.ids);
  for (size_t i = 0; i < left.weights.size(); ++i)
    EXPECT_NEAR(left.weights[i], right.weights[i], 4e-7f * right.weights[i]) << "slot " << i;
  for (size_t t = 0; same.margins && t < left.margins.size(); ++t)
    EXPECT_NEAR(left.margins[t], right.margins[t], 1e-6f) << "token " << t;
}

}  // namespace

void add_router_same(const Feature& feature) {
  for (const Same& same : kSame)
    add(feature, "SameRule", same.label, [=] { same_rule(feature, same); });
}

}  // namespace moert::conformance
