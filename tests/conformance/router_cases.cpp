// Cases of router: rules, and the tensors they are loaded with.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "router.hpp"

namespace moert::conformance {
namespace {

constexpr uint32_t kRenorm = MOERT_ROUTING_RENORMALIZE;
constexpr uint32_t kBias = MOERT_ROUTING_SELECTION_BIAS;
constexpr uint32_t kOnLogits = MOERT_ROUTING_BIAS_ON_LOGITS;
constexpr uint32_t kGroup = MOERT_ROUTING_GROUPED;
constexpr uint32_t kGateBias = MOERT_ROUTING_GATE_BIAS;
constexpr uint32_t kTokens = MOERT_ROUTING_NEEDS_TOKEN_IDS;
constexpr uint32_t kExpertScale = MOERT_ROUTING_EXPERT_SCALE;
constexpr uint32_t kInputNorm = MOERT_ROUTING_INPUT_NORM;

const std::vector<RouterCase> kScores = {
    {"one_of_one", 1, 1},
    {"softmax_top1", 6, 1},
    {"softmax", 60, 4},
    {"softmax_all", 6, 6},
    {"softmax_renorm", 8, 2, "softmax", kRenorm},
    {"softmax_renorm_top1", 8, 1, "softmax", kRenorm},
    {"softmax_renorm_128", 128, 8, "softmax", kRenorm},
    {"softmax_bias_renorm", 64, 6, "softmax", kBias | kRenorm},
    {"softmax_gate_bias", 17, 3, "softmax", kGateBias},
    {"softmax_bf16", 8, 2, "softmax", 0, 0, 0, nullptr, 1, 0, MOERT_DTYPE_BF16},
    {"softmax_topk", 32, 4, "softmax_topk"},
    {"softmax_topk_top1", 8, 1, "softmax_topk"},
    {"softmax_topk_all", 6, 6, "softmax_topk"},
    {"softmax_topk_bias", 32, 4, "softmax_topk", kBias},
    {"softmax_topk_renorm_eps", 32, 4, "softmax_topk", kRenorm, 0, 0, nullptr, 1, 0.25},
    {"sigmoid", 16, 4, "sigmoid"},
    {"sigmoid_renorm_scale", 16, 4, "sigmoid", kRenorm, 0, 0, nullptr, 1.5, 1e-20},
    {"sigmoid_bias_renorm", 256, 8, "sigmoid", kBias | kRenorm, 0, 0, nullptr, 1, 1e-20},
    {"sigmoid_bias_on_logits", 64, 6, "sigmoid", kBias | kOnLogits},
    {"softmax_bias_on_logits_renorm", 64, 6, "softmax", kBias | kOnLogits | kRenorm},
    {"sqrtsoftplus", 16, 4, "sqrtsoftplus"},
    {"sqrtsoftplus_all", 6, 6, "sqrtsoftplus", kRenorm},
    {"sqrtsoftplus_bias_renorm", 256, 6, "sqrtsoftplus", kBias | kRenorm, 0, 0, nullptr, 1, 1e-20},
};

const std::vector<RouterCase> kGroups = {
    {"grouped_max", 64, 6, "softmax", kGroup, 8, 3, "max", 16.0},
    {"grouped_max_top1", 8, 1, "softmax", kGroup, 4, 2, "max"},
    {"grouped_top2", 256, 8, "sigmoid", kGroup | kBias | kRenorm, 8, 4, "top2_sum", 2.5, 1e-20},
    {"grouped_sqrtsoftplus", 64, 6, "sqrtsoftplus", kGroup | kBias, 8, 3, "top2_sum"},
    {"groups_of_one", 8, 3, "sigmoid", kGroup | kBias | kRenorm, 8, 4, "top2_sum"},
    {"groups_of_one_unbiased", 8, 3, "sigmoid", kGroup, 8, 4, "top2_sum"},
    {"one_group", 8, 3, "sigmoid", kGroup | kBias, 1, 1, "top2_sum"},
    {"all_groups", 12, 5, "sigmoid", kGroup | kRenorm, 3, 3, "max"},
    {.label = "group_topk",
     .e = 64,
     .k = 8,
     .flags = kGroup | kRenorm,
     .groups = 4,
     .top_groups = 4,
     .method = "group_topk"},
    {.label = "group_topk_bias",
     .e = 32,
     .k = 8,
     .scoring = "sigmoid",
     .flags = kGroup | kBias,
     .groups = 4,
     .top_groups = 4,
     .scale = 2.5,
     .method = "group_topk"},
    {.label = "group_topk_of_one",
     .e = 12,
     .k = 5,
     .scoring = "softmax_topk",
     .flags = kGroup,
     .groups = 1,
     .top_groups = 1,
     .method = "group_topk"},
    {.label = "group_topk_one_each",
     .e = 12,
     .k = 4,
     .flags = kGroup,
     .groups = 4,
     .top_groups = 4,
     .method = "group_topk"},
    {.label = "group_topk_all",
     .e = 6,
     .k = 6,
     .scoring = "sqrtsoftplus",
     .flags = kGroup,
     .groups = 3,
     .top_groups = 3,
     .method = "group_topk"},
};

const std::vector<RouterCase> kParams = {
    {.label = "logit_factor", .e = 16, .k = 4, .params = {{"logit_scale", "0.37"}}},
    {.label = "softcap", .e = 16, .k = 4, .params = {{"logit_softcap", "3"}}},
    {.label = "softcap_factor_renorm",
     .e = 16,
     .k = 4,
     .scoring = "sigmoid",
     .flags = kRenorm,
     .params = {{"logit_softcap", "2.5"}, {"logit_scale", "1.5"}}},
    {.label = "softcap_bias",
     .e = 16,
     .k = 4,
     .scoring = "sqrtsoftplus",
     .flags = kBias,
     .params = {{"logit_softcap", "2.5"}}},
    {.label = "softcap_topk",
     .e = 16,
     .k = 4,
     .scoring = "softmax_topk",
     .params = {{"logit_softcap", "3"}, {"logit_scale", "2e-1"}}},
    {.label = "floor_holds",
     .e = 16,
     .k = 2,
     .flags = kRenorm,
     .params = {{"renormalize_floor", "10"}}},
    {.label = "floor_passed",
     .e = 16,
     .k = 2,
     .flags = kRenorm,
     .params = {{"renormalize_floor", "1e-12"}}},
    {.label = "floor_and_eps",
     .e = 16,
     .k = 4,
     .scoring = "sigmoid",
     .flags = kRenorm,
     .eps = 0.5,
     .params = {{"renormalize_floor", "3"}}},
    {.label = "expert_factor", .e = 16, .k = 4, .flags = kExpertScale},
    {.label = "expert_factor_renorm_scale",
     .e = 16,
     .k = 4,
     .flags = kExpertScale | kRenorm,
     .scale = 2.5},
    {.label = "input_norm",
     .e = 16,
     .k = 4,
     .flags = kInputNorm,
     .params = {{"input_norm_eps", "1e-6"}}},
    {.label = "input_norm_gain",
     .e = 16,
     .k = 4,
     .flags = kInputNorm | kGateBias | kExpertScale,
     .params = {{"input_gain", "0.174"}, {"input_norm_eps", "0.25"}}},
    {.label = "input_norm_bf16",
     .e = 16,
     .k = 4,
     .flags = kInputNorm,
     .dtype = MOERT_DTYPE_BF16,
     .params = {{"input_norm_eps", "1e-6"}}},
};

const std::vector<RouterCase> kMethods = {
    {.label = "sparsemixer", .e = 16, .k = 2, .method = "sparsemixer"},
    {.label = "sparsemixer_of_two", .e = 2, .k = 2, .method = "sparsemixer"},
    {.label = "sparsemixer_scale",
     .e = 16,
     .k = 2,
     .scale = 1.5,
     .method = "sparsemixer",
     .params = {{"jitter_eps", "0.2"}}},
    {.label = "sparsemixer_softcap",
     .e = 16,
     .k = 2,
     .flags = kExpertScale,
     .method = "sparsemixer",
     .params = {{"logit_softcap", "3"}, {"jitter_eps", "0.1"}}},
    {.label = "hash", .e = 16, .k = 4, .flags = kTokens, .method = "hash"},
    {.label = "hash_all", .e = 4, .k = 4, .scoring = "sigmoid", .flags = kTokens, .method = "hash"},
    {.label = "hash_topk",
     .e = 16,
     .k = 4,
     .scoring = "softmax_topk",
     .flags = kTokens,
     .method = "hash"},
    {.label = "hash_renorm_scale",
     .e = 64,
     .k = 6,
     .scoring = "sqrtsoftplus",
     .flags = kTokens | kRenorm | kGateBias,
     .scale = 1.5,
     .eps = 1e-20,
     .method = "hash"},
};

}  // namespace

std::vector<RouterCase> router_cases() {
  std::vector<RouterCase> all;
  for (const auto& part : {kScores, kGroups, kParams, kMethods})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::vector<RouterCase> simulated_cases() {
  return {
      {.label = "simulated", .e = 16, .k = 4, .method = "simulated"},
      {.label = "simulated_all",
       .e = 6,
       .k = 6,
       .scoring = "sigmoid",
       .flags = kRenorm,
       .method = "simulated",
       .params = {{"distribution", "normal"}}},
      {.label = "simulated_uniform_scale",
       .e = 12,
       .k = 3,
       .scale = 1.5,
       .method = "simulated",
       .params = {{"distribution", "uniform"}, {"seed", "18446744073709551615"}}},
      {.label = "simulated_normal",
       .e = 12,
       .k = 3,
       .method = "simulated",
       .params = {{"distribution", "normal"}, {"seed", "7"}}},
      {.label = "simulated_normal_odd",
       .e = 7,
       .k = 1,
       .method = "simulated",
       .params = {{"distribution", "normal"}}},
      {.label = "simulated_zipf",
       .e = 12,
       .k = 3,
       .flags = kRenorm,
       .method = "simulated",
       .params = {{"seed", "0"}, {"distribution", "zipf"}}},
  };
}

bool RouterCase::sums_scores() const {
  return group_score != nullptr && std::string_view(group_score) == "top2_sum" && groups < e;
}

double RouterCase::param(std::string_view key, double otherwise) const {
  for (const moert_kv_t& param : params)
    if (key == param.key) return std::stod(param.value);
  return otherwise;
}

moert_routing_t routing_of(const RouterCase& c, moert_device_id_t device) {
  moert_routing_t r{};
  r.struct_size = sizeof r;
  r.flags = c.flags;
  r.device = device;
  r.layer_id = c.layer;
  r.max_tokens = RouterRig::kMaxTokens;
  r.hidden_size = RouterCase::h;
  r.num_experts = c.e;
  r.top_k = c.k;
  r.activation_dtype = c.dtype;
  r.method = c.method;
  r.scoring = c.scoring;
  r.group_score = c.group_score;
  r.num_groups = c.groups;
  r.top_groups = c.top_groups;
  r.routed_scale = c.scale;
  r.renormalize_eps = c.eps;
  r.params = c.params.empty() ? nullptr : c.params.data();
  r.n_params = static_cast<uint32_t>(c.params.size());
  return r;
}

RouterTensors::RouterTensors(const RouterCase& c, Random& random) {
  const auto random_values = [&](uint32_t dtype, int64_t count) {
    std::vector<double> numbers(static_cast<size_t>(count));
    for (double& x : numbers) x = random.uniform();
    return rounded(dtype, numbers);
  };
  gate = random_values(c.dtype, c.e * RouterCase::h);
  if (c.has(kGateBias)) gate_bias = random_values(MOERT_DTYPE_F32, c.e);
  for (int64_t e = 0; c.biased() && e < c.e; ++e)
    bias.push_back(static_cast<float>(random.uniform()));
  if (c.has(kExpertScale)) expert_scale = random_values(MOERT_DTYPE_F32, c.e);
  if (c.has(kInputNorm)) input_scale = random_values(c.dtype, RouterCase::h);
  for (int64_t token = 0; c.has(kTokens) && token < kVocabulary; ++token) {
    std::vector<int32_t> left(static_cast<size_t>(c.e));
    for (size_t e = 0; e < left.size(); ++e) left[e] = static_cast<int32_t>(e);
    for (int64_t j = 0; j < c.k; ++j) {
      const auto pick = random.below(static_cast<int64_t>(left.size()));
      table.push_back(left[static_cast<size_t>(pick)]);
      left.erase(left.begin() + pick);
    }
  }
}

int64_t RouterTensors::token_of(const RouterCase& c, const float* logits) {
  uint64_t sum = 0;
  for (int64_t e = 0; e < c.e; ++e) {
    uint32_t bits = 0;
    std::memcpy(&bits, &logits[e], sizeof bits);
    sum = sum * 31 + bits;
  }
  return static_cast<int64_t>(sum % kVocabulary);
}

}  // namespace moert::conformance
