// The rule of routing on the device against plain loops: ids exactly, for every method.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "gpu/device_array.hpp"
#include "gpu/router/route.hpp"
#include "gpu/router/simulated.hpp"
#include "router_reference.hpp"

namespace moert::gpu {
namespace {

constexpr uint32_t kRenorm = MOERT_ROUTING_RENORMALIZE;
constexpr uint32_t kBias = MOERT_ROUTING_SELECTION_BIAS;
constexpr uint32_t kOnLogits = MOERT_ROUTING_BIAS_ON_LOGITS;
constexpr uint32_t kGroup = MOERT_ROUTING_GROUPED;
constexpr uint32_t kScale = MOERT_ROUTING_EXPERT_SCALE;

struct RouteCase {
  const char* label;
  int64_t e, k;
  const char* method = "topk";
  const char* scoring = "softmax";
  uint32_t flags = 0;
  int64_t groups = 0, top_groups = 0;
  const char* group_score = nullptr;
  double scale = 1, eps = 0;
  std::vector<moert_kv_t> params = {};
};

const RouteCase kRouteCases[] = {
    {"one", 1, 1},
    {"softmax", 64, 6},
    {"all", 9, 9, "topk", "softmax", kRenorm},
    {"not_a_multiple", 257, 7, "topk", "sigmoid", kRenorm | kScale, 0, 0, nullptr, 2.5, 1e-20},
    {"softmax_topk", 128, 8, "topk", "softmax_topk"},
    {"softmax_topk_renorm", 128, 4, "topk", "softmax_topk", kRenorm, 0, 0, nullptr, 1, 0.25},
    {"sqrtsoftplus", 100, 5, "topk", "sqrtsoftplus", kRenorm},
    {"biased", 256, 8, "topk", "sigmoid", kBias | kRenorm},
    {"bias_on_logits", 64, 6, "topk", "softmax", kBias | kOnLogits},
    {"large", 1024, 33, "topk", "softmax", kRenorm},
    {"larger", 2050, 70, "topk", "sigmoid", kBias},
    {"groups_max", 64, 6, "topk", "softmax", kGroup, 8, 3, "max", 16},
    {"groups_top2", 256, 8, "topk", "sigmoid", kGroup | kBias | kRenorm, 8, 4, "top2_sum", 2.5},
    {"groups_top2_unbiased", 60, 5, "topk", "sqrtsoftplus", kGroup, 6, 2, "top2_sum"},
    {"groups_of_one", 80, 9, "topk", "sigmoid", kGroup | kBias, 80, 40, "top2_sum"},
    {"group_topk", 64, 8, "group_topk", "softmax", kGroup | kRenorm, 4, 4},
    {"group_topk_biased", 96, 12, "group_topk", "sigmoid", kGroup | kBias, 6, 6},
    {"group_topk_one_each", 70, 70, "group_topk", "softmax_topk", kGroup, 70, 70},
    {"sparsemixer", 16, 2, "sparsemixer", "softmax", kScale},
    {"sparsemixer_wide",
     100,
     2,
     "sparsemixer",
     "softmax",
     0,
     0,
     0,
     nullptr,
     1.5,
     0,
     {{"jitter_eps", "0.3"}, {"logit_softcap", "3"}}},
    {"capped",
     40,
     5,
     "topk",
     "sigmoid",
     kRenorm,
     0,
     0,
     nullptr,
     1,
     0,
     {{"logit_softcap", "2.5"}, {"logit_scale", "1.5"}, {"renormalize_floor", "4"}}},
    {"simulated", 48, 6, "simulated"},
    {"simulated_zipf",
     300,
     40,
     "simulated",
     "softmax",
     0,
     0,
     0,
     nullptr,
     2,
     0,
     {{"distribution", "zipf"}, {"seed", "18446744073709551615"}}},
    {"simulated_normal",
     33,
     3,
     "simulated",
     "sigmoid",
     kRenorm,
     0,
     0,
     nullptr,
     1,
     0,
     {{"distribution", "normal"}, {"seed", "7"}}},
};

void PrintTo(const RouteCase& c, std::ostream* out) { *out << c.label; }

moert_routing_t routing_of(const RouteCase& c) {
  moert_routing_t r{};
  r.struct_size = sizeof r;
  r.flags = c.flags;
  r.layer_id = 5;
  r.num_experts = c.e;
  r.top_k = c.k;
  r.method = c.method;
  r.scoring = c.scoring;
  r.group_score = c.group_score;
  r.num_groups = c.groups;
  r.top_groups = c.top_groups;
  r.routed_scale = c.scale;
  r.renormalize_eps = c.eps;
  r.params = c.params.data();
  r.n_params = static_cast<uint32_t>(c.params.size());
  return r;
}

Rule rule_of(const RouteCase& c) {
  Rule rule;
  EXPECT_EQ(read_rule(routing_of(c), &rule), "");
  return rule;
}

class Route : public testing::TestWithParam<RouteCase> {
 protected:
  Route() : rule_(rule_of(GetParam())) {
    const auto e = static_cast<size_t>(rule_.num_experts);
    for (size_t i = 0; i < e && rule_.biased; ++i)
      tensors_.bias.push_back(static_cast<float>(grid(0.25)));
    for (size_t i = 0; i < e && (GetParam().flags & kScale) != 0; ++i)
      tensors_.expert_scale.push_back(grid(0.125));
    if (rule_.method == Method::simulated) tensors_.log_p = log_probabilities(rule_);
    bias_.assign(tensors_.bias);
    scale_.assign(tensors_.expert_scale);
    log_p_.assign(tensors_.log_p);
  }
  ~Route() override { take_fault(0); }

  // A multiple of `step`, so that many are equal.
  double grid(double step) { return step * std::uniform_int_distribution<int>(-20, 20)(random_); }
  std::vector<float> random_logits(int64_t tokens) {
    std::vector<float> logits(static_cast<size_t>(tokens * rule_.num_experts));
    for (float& x : logits) x = static_cast<float>(grid(0.25));
    return logits;
  }
  std::vector<float> row(const std::vector<float>& logits, int64_t t) const {
    const auto first = logits.begin() + t * rule_.num_experts;
    return {first, first + rule_.num_experts};
  }
  RouterReference reference(const std::vector<float>& logits, int64_t t) const {
    return {rule_, tensors_, row(logits, t)};
  }

  // Rows of logits and outputs lie apart, in a second column where they have room for one.
  struct Rows {
    std::vector<int32_t> ids;
    std::vector<float> weights, margins;
  };
  Rows run(const std::vector<float>& logits, const std::vector<int32_t>& forced = {}) {
    const int64_t e = rule_.num_experts, k = rule_.top_k;
    const int64_t tokens = static_cast<int64_t>(logits.size()) / e;
    DeviceArray<float> in, weights, margins;
    DeviceArray<int32_t> ids, force;
    in.assign(logits);
    force.assign(forced);
    ids.resize(tokens * k);
    weights.resize(tokens * k);
    margins.resize(tokens);
    ids.poison();
    weights.poison();
    margins.poison();
    RouteArgs args;
    args.rule = rule_;
    args.tokens = tokens;
    args.logits = {in.device(), e, 1};
    args.ids = {ids.device(), k, 1};
    args.weights = {weights.device(), k, 1};
    args.margins = {margins.device(), 1, 0};
    if (!forced.empty()) args.forced = {force.device(), k, 1};
    args.bias = bias_.device();
    args.expert_scale = scale_.device();
    args.log_p = log_p_.device();
    args.fault = fault_record(0);
    const DeviceFacts& facts = remembered_facts(0);
    const TestStream stream;
    launch_route(facts.warp, facts.shared_bytes, stream.get(), args);
    synchronize(stream.get());
    return {ids.download(), weights.download(), margins.download()};
  }

  void expect_row(const Rows& got, int64_t t, const Routed& want) const {
    const int64_t k = rule_.top_k;
    const auto first = got.ids.begin() + t * k;
    EXPECT_EQ(std::vector<int32_t>(first, first + k), want.ids) << "token " << t;
    for (int64_t j = 0; j < k; ++j) {
      const auto weight = static_cast<double>(got.weights[static_cast<size_t>(t * k + j)]);
      const double wanted = want.weights[static_cast<size_t>(j)];
      EXPECT_TRUE(std::fabs(weight - wanted) <= 2e-7 * std::fabs(wanted) + 1e-37)
          << "token " << t << ", slot " << j << ": " << weight << ", want " << wanted;
    }
    const auto margin = static_cast<double>(got.margins[static_cast<size_t>(t)]);
    EXPECT_TRUE(margin == want.margin ||
                std::fabs(margin - want.margin) <= 1e-6 * std::max(1.0, std::fabs(want.margin)))
        << "token " << t << ": margin " << margin << ", want " << want.margin;
  }

  Rule rule_;
  RuleTensors tensors_;
  DeviceArray<float> bias_;
  DeviceArray<double> scale_, log_p_;
  std::mt19937_64 random_{20261201};
};

TEST_P(Route, FollowsTheRule) {
  constexpr int64_t kTokens = 6;
  const std::vector<float> logits = random_logits(kTokens);
  const Rows got = run(logits);
  for (int64_t t = 0; t < kTokens; ++t) expect_row(got, t, reference(logits, t).route());
  EXPECT_EQ(take_fault(0), "");
}

TEST_P(Route, ReadsOddLogits) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr int64_t kTokens = 8;
  std::vector<float> logits = random_logits(kTokens);
  const auto e = static_cast<size_t>(rule_.num_experts);
  for (size_t i = 0; i < e; ++i) {
    logits[i] = kNan;
    logits[e + i] = kInf;
    logits[2 * e + i] = -kInf;
    if (i % 2 == 0) logits[3 * e + i] = kNan;
    logits[4 * e + i] = i % 3 == 0 ? kInf : -kInf;
    logits[5 * e + i] = i == e - 1 ? kInf : kNan;
    if (i % 5 == 1) logits[6 * e + i] = -kInf;
  }
  const Rows got = run(logits);
  for (int64_t t = 0; t < kTokens; ++t) expect_row(got, t, reference(logits, t).route());
}

TEST_P(Route, TakesForcedIds) {
  constexpr int64_t kTokens = 4;
  const int32_t e = rule_.num_experts, k = rule_.top_k;
  const std::vector<float> logits = random_logits(kTokens);
  std::vector<int32_t> forced;
  for (int64_t t = 0; t < kTokens; ++t)
    for (int32_t j = 0; j < k; ++j) forced.push_back(t == 1 ? -1 : t == 2 ? j : e - 1 - j);
  const Rows got = run(logits, forced);
  for (int64_t t = 0; t < kTokens; ++t) {
    const RouterReference want = reference(logits, t);
    const auto first = forced.begin() + t * k;
    expect_row(got, t, t == 1 ? want.route() : want.weigh({first, first + k}));
  }
  const Rows chosen = run(logits);
  const Rows again = run(logits, chosen.ids);
  EXPECT_EQ(again.ids, chosen.ids);
  EXPECT_EQ(std::memcmp(again.weights.data(), chosen.weights.data(),
                        chosen.weights.size() * sizeof(float)),
            0)
      << "replayed weights have other bits";
  EXPECT_EQ(take_fault(0), "");
}

TEST_P(Route, GivesARowTheSameBitsInAnyBatch) {
  constexpr int64_t kTokens = 5;
  const std::vector<float> logits = random_logits(kTokens);
  const Rows whole = run(logits);
  Rows single;
  for (int64_t t = 0; t < kTokens; ++t) {
    const Rows one = run(row(logits, t));
    single.ids.insert(single.ids.end(), one.ids.begin(), one.ids.end());
    single.weights.insert(single.weights.end(), one.weights.begin(), one.weights.end());
  }
  EXPECT_EQ(whole.ids, single.ids);
  EXPECT_EQ(std::memcmp(whole.weights.data(), single.weights.data(),
                        whole.weights.size() * sizeof(float)),
            0);
  EXPECT_TRUE(run({}).ids.empty());
}

TEST_P(Route, RowsOfWrongForcedIdsGetNoExperts) {
  const int32_t e = rule_.num_experts, k = rule_.top_k;
  const std::vector<float> logits = random_logits(3);
  std::vector<int32_t> good;
  for (int32_t j = 0; j < k; ++j) good.push_back(j);
  std::vector<std::pair<const char*, std::vector<int32_t>>> wrong;
  wrong.push_back({"no expert", good});
  wrong.back().second.back() = e;
  if (k > 1) {
    wrong.push_back({"twice", good});
    wrong.back().second.back() = 0;
    wrong.push_back({"no expert", good});  // half of it is absent
    wrong.back().second.back() = -1;
  }
  for (const auto& [word, row] : wrong) {
    std::vector<int32_t> forced = good;
    forced.insert(forced.end(), row.begin(), row.end());
    forced.insert(forced.end(), good.begin(), good.end());
    const Rows got = run(logits, forced);
    const std::string text = take_fault(0);
    EXPECT_NE(text.find("row 1"), std::string::npos) << text;
    EXPECT_NE(text.find(word), std::string::npos) << text;
    for (const int64_t t : {0, 2}) expect_row(got, t, reference(logits, t).weigh(good));
    const std::vector<double> zeros(static_cast<size_t>(k), 0.0);
    expect_row(got, 1, {std::vector<int32_t>(static_cast<size_t>(k), -1), zeros, HUGE_VAL});
  }
}

INSTANTIATE_TEST_SUITE_P(Router, Route, testing::ValuesIn(kRouteCases),
                         [](const auto& tested) { return std::string(tested.param.label); });

// Tokens choose by a table; what is in no table gets no experts.
TEST(RouterHash, TokensChooseByTheTable) {
  moert_routing_t routing = routing_of({"hash", 6, 2, "hash", "softmax_topk"});
  routing.flags = MOERT_ROUTING_NEEDS_TOKEN_IDS;
  Rule rule;
  ASSERT_EQ(read_rule(routing, &rule), "");
  const std::vector<float> logits = {9, 1, 7, 0, 0, 8};
  const std::vector<int64_t> given = {0, -1, 2, 3, -2, int64_t{1} << 40, 1, 2};
  const auto tokens = static_cast<int64_t>(given.size());
  DeviceArray<int32_t> table, ids, forced;
  DeviceArray<int64_t> token_ids;
  DeviceArray<float> in, weights;
  table.assign({4, 1, 0, 5, 3, 2});
  token_ids.assign(given);
  std::vector<int32_t> force(static_cast<size_t>(tokens * 2), -1);
  force[14] = 5;
  force[15] = 0;
  forced.assign(force);
  in.assign(logits);
  ids.resize(tokens * 2);
  weights.resize(tokens * 2);
  RouteArgs args;
  args.rule = rule;
  args.tokens = tokens;
  args.logits = {in.device(), 0, 1};  // all rows are the same one
  args.ids = {ids.device(), 2, 1};
  args.weights = {weights.device(), 2, 1};
  args.forced = {forced.device(), 2, 1};
  args.token_ids = {token_ids.device(), 1, 0};
  args.table = table.device();
  args.vocabulary = 3;
  args.fault = fault_record(0);
  const TestStream stream;
  launch_route(remembered_facts(0).warp, remembered_facts(0).shared_bytes, stream.get(), args);
  synchronize(stream.get());
  EXPECT_EQ(ids.download(),
            (std::vector<int32_t>{4, 1, -1, -1, 3, 2, -1, -1, -1, -1, -1, -1, 0, 5, 5, 0}));
  const std::vector<float> got = weights.download();
  EXPECT_NEAR(got[1], 1 / (1 + std::exp(-1.0)), 1e-7);
  for (const size_t absent : {2, 3, 6, 7, 8, 9, 10, 11}) EXPECT_EQ(got[absent], 0);
  EXPECT_NE(take_fault(0).find("token"), std::string::npos);
}

}  // namespace
}  // namespace moert::gpu
