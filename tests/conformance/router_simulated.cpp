// router: experts that are made up. Which ones is nobody's rule; how often, how many and for whom is.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "router.hpp"

namespace moert::conformance {
namespace {

std::vector<float> random_logits(RouterRig& rig, const RouterCase& c, int64_t tokens) {
  std::vector<float> logits(static_cast<size_t>(tokens * c.e));
  for (float& x : logits) x = static_cast<float>(rig.random().uniform());
  return logits;
}

void equal_weights(RouterRig& rig, const RouterCase& c) {
  const Decisions got = rig.route(random_logits(rig, c, 16));
  for (const float weight : got.weights)
    EXPECT_NEAR(static_cast<double>(weight), c.scale / static_cast<double>(c.k), 1e-6);
  for (const float margin : got.margins) EXPECT_EQ(margin, HUGE_VALF) << "nothing was compared";
  const std::vector<float> logits = random_logits(rig, c, 1);
  std::vector<int32_t> forced;
  for (int64_t j = 0; j < c.k; ++j) forced.push_back(static_cast<int32_t>(c.e - 1 - j));
  EXPECT_EQ(rig.route(logits, forced).ids, forced);
}

double share(const RouterCase& c, int64_t expert) {
  std::string_view distribution = "uniform";
  for (const moert_kv_t& param : c.params)
    if (std::string_view(param.key) == "distribution") distribution = param.value;
  const auto all = static_cast<double>(c.e);
  const auto e = static_cast<double>(expert);
  // Of a standard normal distribution, what lies below log(x / (1 - x)).
  const auto bell = [](double x) {
    return x <= 0 ? 0.0 : x >= 1 ? 1.0 : std::erfc(-std::log(x / (1 - x)) / std::sqrt(2.0)) / 2;
  };
  if (distribution == "normal") return bell((e + 1) / all) - bell(e / all);
  double harmonic = 0;
  for (int64_t i = 1; i <= c.e; ++i) harmonic += 1 / static_cast<double>(i);
  return distribution == "zipf" ? 1 / (e + 1) / harmonic : 1 / all;
}

// How often each expert comes first, within five standard deviations.
void frequencies(RouterRig& rig, const RouterCase& c) {
  constexpr int64_t kBatches = 64;
  std::vector<int64_t> counts(static_cast<size_t>(c.e), 0);
  for (int64_t b = 0; b < kBatches; ++b) {
    const Decisions got = rig.route(random_logits(rig, c, RouterRig::kMaxTokens));
    for (size_t t = 0; t < got.margins.size(); ++t)
      ++counts[static_cast<size_t>(got.ids[t * static_cast<size_t>(c.k)])];
  }
  const auto rows = static_cast<double>(kBatches * RouterRig::kMaxTokens);
  for (int64_t e = 0; e < c.e; ++e) {
    const double p = share(c, e);
    const double limit = 5 * std::sqrt(rows * p * (1 - p)) + 1;
    EXPECT_NEAR(static_cast<double>(counts[static_cast<size_t>(e)]), rows * p, limit)
        << "expert " << e;
  }
}

// Every row draws for itself; seed and layer change the draw, and one that is given again repeats it.
void draws(const Feature& feature) {
  const RouterCase c = {.label = "draws", .e = 64, .k = 8, .method = "simulated"};
  RouterRig rig(feature, c);
  const std::vector<float> logits = random_logits(rig, c, 8);
  const std::vector<int32_t> first = rig.route(logits).ids;
  for (size_t t = 1; t < 8; ++t)
    EXPECT_FALSE(std::equal(first.begin(), first.begin() + 8,
                            first.begin() + static_cast<std::ptrdiff_t>(8 * t)))
        << "rows 0 and " << t << " drew the same";
  EXPECT_EQ(RouterRig(feature, c).route(logits).ids, first) << "another object of the same rule";
  RouterCase zero = c;
  zero.params = {{"seed", "0"}};
  EXPECT_EQ(RouterRig(feature, zero).route(logits).ids, first) << "0 is the seed if none is given";
  RouterCase seeded = c;
  seeded.params = {{"seed", "1"}};
  EXPECT_NE(RouterRig(feature, seeded).route(logits).ids, first) << "another seed";
  RouterCase deeper = c;
  deeper.layer = 4;
  EXPECT_NE(RouterRig(feature, deeper).route(logits).ids, first) << "another layer";
}

}  // namespace

void add_router_simulated(const Feature& feature) {
  using Run = void (*)(RouterRig&, const RouterCase&);
  const std::pair<const char*, Run> subjects[] = {{"EqualWeights", equal_weights},
                                                  {"Frequencies", frequencies},
                                                  {"OddLogits", router_odd_logits},
                                                  {"SameBits", router_same_bits}};
  for (const auto& [subject, test] : subjects)
    for (const RouterCase& c : simulated_cases())
      add(feature, subject, c.label, [feature, c, run = test] {
        RouterRig rig(feature, c);
        run(rig, c);
      });
  add(feature, "Draws", "", [=] { draws(feature); });
}

}  // namespace moert::conformance
