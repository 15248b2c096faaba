// router: combinations and parameters that must be declined, by name.
// SPDX-License-Identifier: Apache-2.0
#include "router.hpp"

namespace moert::conformance {
namespace {

constexpr uint32_t kRenorm = MOERT_ROUTING_RENORMALIZE;
constexpr uint32_t kBias = MOERT_ROUTING_SELECTION_BIAS;
constexpr uint32_t kGroup = MOERT_ROUTING_GROUPED;
constexpr uint32_t kTokens = MOERT_ROUTING_NEEDS_TOKEN_IDS;
constexpr uint32_t kInputNorm = MOERT_ROUTING_INPUT_NORM;

// A rule with one thing wrong, and the word that the reason must have.
struct Refusal {
  RouterCase c;
  const char* word;
};

RouterCase with(const char* label, const char* method, uint32_t flags) {
  return {.label = label, .e = 8, .k = 2, .flags = flags, .method = method};
}
RouterCase grouped(const char* label, int64_t k, int64_t groups, int64_t top_groups,
                   const char* group_score = nullptr) {
  return {.label = label,
          .e = 8,
          .k = k,
          .flags = kGroup,
          .groups = groups,
          .top_groups = top_groups,
          .group_score = group_score,
          .method = "group_topk"};
}
RouterCase two_groups(const char* label, const char* method, uint32_t flags) {
  RouterCase c = grouped(label, 2, 2, 1, "max");
  c.flags = flags;
  c.method = method;
  return c;
}
RouterCase param(const char* label, const char* method, const char* key, const char* value,
                 uint32_t flags = 0) {
  RouterCase c = with(label, method, flags);
  c.params = {{key, value}};
  return c;
}

const std::vector<Refusal> kFlags = {
    {with("topk_reads_hidden", "topk", MOERT_ROUTING_NEEDS_HIDDEN), "hidden"},
    {with("topk_reads_tokens", "topk", kTokens), "TOKEN_IDS"},
    {with("bias_on_logits_without_bias", "topk", MOERT_ROUTING_BIAS_ON_LOGITS), "SELECTION_BIAS"},
    {with("hash_without_tokens", "hash", 0), "TOKEN_IDS"},
    {with("hash_bias", "hash", kTokens | kBias), "BIAS"},
    {two_groups("hash_groups", "hash", kTokens | kGroup), "GROUPED"},
    {with("sparsemixer_renormalize", "sparsemixer", kRenorm), "RENORMALIZE"},
    {with("sparsemixer_bias", "sparsemixer", kBias), "BIAS"},
    {two_groups("sparsemixer_groups", "sparsemixer", kGroup), "GROUPED"},
    {{.label = "sparsemixer_top1", .e = 8, .k = 1, .method = "sparsemixer"}, "top_k"},
    {{.label = "sparsemixer_top3", .e = 8, .k = 3, .method = "sparsemixer"}, "top_k"},
    {{.label = "sparsemixer_sigmoid",
      .e = 8,
      .k = 2,
      .scoring = "sigmoid",
      .method = "sparsemixer"},
     "sigmoid"},
    {with("group_topk_without_groups", "group_topk", 0), "GROUPED"},
    {grouped("group_topk_no_groups", 4, 0, 0), "num_groups"},
    {grouped("group_topk_uneven_experts", 3, 3, 3), "num_groups"},
    {grouped("group_topk_uneven_slots", 3, 2, 2), "num_groups"},
    {grouped("group_topk_more_groups_than_slots", 2, 4, 4), "num_groups"},
    {grouped("group_topk_drops_groups", 4, 4, 2), "top_groups"},
    {grouped("group_topk_score", 4, 4, 4, "max"), "group_score"},
    {with("simulated_bias", "simulated", kBias), "BIAS"},
    {two_groups("simulated_groups", "simulated", kGroup), "GROUPED"},
};

const std::vector<Refusal> kUnused = {
    {param("unknown", "topk", "no_such_parameter", "1"), "no_such_parameter"},
    {param("unknown_of_hash", "hash", "no_such_parameter", "1", kTokens), "no_such_parameter"},
    {param("floor_without_renormalize", "topk", "renormalize_floor", "1"), "renormalize_floor"},
    {param("jitter_of_topk", "topk", "jitter_eps", "0.01"), "jitter_eps"},
    {param("seed_of_topk", "topk", "seed", "1"), "seed"},
    {param("distribution_of_topk", "topk", "distribution", "zipf"), "distribution"},
    {param("norm_eps_without_norm", "topk", "input_norm_eps", "1e-6"), "input_norm_eps"},
    {param("gain_without_norm", "topk", "input_gain", "2"), "input_gain"},
    {param("scale_of_simulated", "simulated", "logit_scale", "2"), "logit_scale"},
    {param("softcap_of_simulated", "simulated", "logit_softcap", "2"), "logit_softcap"},
    {param("floor_of_simulated", "simulated", "renormalize_floor", "2", kRenorm),
     "renormalize_floor"},
    {param("jitter_of_simulated", "simulated", "jitter_eps", "0.01"), "jitter_eps"},
    {{.label = "twice", .e = 8, .k = 2, .params = {{"logit_scale", "2"}, {"logit_scale", "2"}}},
     "logit_scale"},
    {{.label = "unknown_after_a_good_one",
      .e = 8,
      .k = 2,
      .params = {{"logit_scale", "2"}, {"no_such_parameter", "2"}}},
     "no_such_parameter"},
};

const std::vector<Refusal> kNumbers = {
    {param("empty", "topk", "logit_scale", ""), "logit_scale"},
    {param("missing", "topk", "logit_scale", nullptr), "logit_scale"},
    {param("word", "topk", "logit_scale", "two"), "logit_scale"},
    {param("number_and_more", "topk", "logit_scale", "2x"), "logit_scale"},
    {param("space_before", "topk", "logit_scale", " 2"), "logit_scale"},
    {param("space_behind", "topk", "logit_scale", "2 "), "logit_scale"},
    {param("comma", "topk", "logit_scale", "1,5"), "logit_scale"},
    {param("hexadecimal", "topk", "logit_scale", "0x10"), "logit_scale"},
    {param("nan", "topk", "logit_scale", "nan"), "logit_scale"},
    {param("inf", "topk", "logit_scale", "inf"), "logit_scale"},
    {param("too_large", "topk", "logit_scale", "1e999"), "logit_scale"},
    {param("scale_zero", "topk", "logit_scale", "0"), "logit_scale"},
    {param("scale_negative", "topk", "logit_scale", "-1"), "logit_scale"},
    {param("softcap_negative", "topk", "logit_softcap", "-1"), "logit_softcap"},
    {param("floor_negative", "topk", "renormalize_floor", "-1", kRenorm), "renormalize_floor"},
    {param("norm_eps_negative", "topk", "input_norm_eps", "-1", kInputNorm), "input_norm_eps"},
    {param("gain_zero", "topk", "input_gain", "0", kInputNorm), "input_gain"},
    {param("jitter_negative", "sparsemixer", "jitter_eps", "-0.01"), "jitter_eps"},
    {param("seed_fraction", "simulated", "seed", "1.5"), "seed"},
    {param("seed_negative", "simulated", "seed", "-1"), "seed"},
    {param("seed_too_large", "simulated", "seed", "18446744073709551616"), "seed"},
    {param("seed_empty", "simulated", "seed", ""), "seed"},
    {param("distribution_unknown", "simulated", "distribution", "gauss"), "gauss"},
    {param("distribution_part", "simulated", "distribution", "zip"), "zip"},
};

// Whether the feature follows the method at all: what it doesn't know it declines for another reason.
bool knows(const Feature& feature, const char* method) {
  const Place place(feature.device);
  for (const auto& cases : {router_cases(), simulated_cases()})
    for (const RouterCase& c : cases)
      if (c.is(method) && router_support(feature, routing_of(c, place.id())).verdict != 0)
        return true;
  return false;
}

void refuses(const Feature& feature, const Refusal& refusal) {
  if (!knows(feature, refusal.c.method))
    throw Skip{"declines method " + std::string(refusal.c.method)};
  const Place place(feature.device);
  const moert_support_t got = router_support(feature, routing_of(refusal.c, place.id()));
  EXPECT_EQ(got.verdict, 0) << "was accepted";
  // Whoever takes no flags or no parameters at all may say so instead.
  const std::string_view reason(got.reason);
  EXPECT_TRUE(reason.find(refusal.word) != std::string_view::npos ||
              reason.find("flag") != std::string_view::npos ||
              reason.find("parameter") != std::string_view::npos)
      << "the reason does not name '" << refusal.word << "': " << reason;
}

}  // namespace

void add_router_refusals(const Feature& feature) {
  for (const auto& part : {kFlags, kUnused, kNumbers})
    for (const Refusal& refusal : part)
      add(feature, "Refuses", refusal.c.label, [=] { refuses(feature, refusal); });
}

}  // namespace moert::conformance
