// router: numbers, ties, odd logits, replay, for every rule of the suite.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "router.hpp"

namespace moert::conformance {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<int32_t> row_of_ids(const RouterCase& c, const Decisions& d, int64_t row) {
  const auto first = d.ids.begin() + row * c.k;
  return {first, first + c.k};
}

void numbers(RouterRig& rig, const RouterCase& c) {
  constexpr int64_t kTokens = 16;
  const std::vector<float> logits = clear_logits(c, rig.random(), kTokens, rig.tensors());
  const Decisions got = rig.route(logits);
  for (int64_t t = 0; t < kTokens; ++t)
    expect_decision(c, got, t, decide(c, rig.tensors(), &logits[static_cast<size_t>(t * c.e)]));
}

// hidden x gate^T, in f32 or better.
void logits(RouterRig& rig, const RouterCase& c) {
  constexpr int64_t kTokens = 5;
  constexpr int64_t h = RouterCase::h;
  std::vector<double> x(static_cast<size_t>(kTokens * h));
  for (double& value : x) value = rig.random().uniform();
  const Values hidden = rounded(c.dtype, x);
  const std::vector<float> out = rig.logits(hidden, kTokens);
  const std::vector<double> got(out.begin(), out.end());
  expect_near(got, expected_logits(c, rig.tensors(), hidden, kTokens), c.e,
              std::vector<std::string>(kTokens, "logits"));
}

void zero_tokens(RouterRig& rig, const RouterCase& c) {
  EXPECT_TRUE(rig.logits({}, 0).empty());
  EXPECT_TRUE(rig.route({}).ids.empty());
  numbers(rig, c);
}

// Equal logits: the lower ids, whatever the rule. The bias is 0 here, so it decides nothing.
void ties(RouterRig& rig, const RouterCase& c) {
  std::vector<float> row(static_cast<size_t>(c.e), 0.25f);
  const Decisions equal = rig.route(row);
  expect_decision(c, equal, 0, decide(c, rig.tensors(), row.data()));
  for (size_t e = 0; e < row.size(); ++e) row[e] = static_cast<float>((e / 2) % 3);  // in pairs
  expect_decision(c, rig.route(row), 0, decide(c, rig.tensors(), row.data()));
}

// Scores that underflow or saturate in f32: the logits are still different.
void saturated(RouterRig& rig, const RouterCase& c) {
  if (c.biased()) throw Skip{"a bias is added to the saturated score"};
  if (c.sums_scores()) throw Skip{"a sum of scores"};
  std::vector<float> row;
  for (int64_t e = 0; e < c.e; ++e)
    row.push_back(static_cast<float>(40 + 200 * ((e * 7 + 3) % c.e)) * (e % 2 == 0 ? -1.0f : 1.0f));
  const Decisions got = rig.route(row);
  const Decision want = decide(c, rig.tensors(), row.data());
  EXPECT_EQ(row_of_ids(c, got, 0), want.ids);
}

// Replay: what was chosen gives the same weights; other ids theirs; rows of -1 route as usual.
void replay(RouterRig& rig, const RouterCase& c) {
  constexpr int64_t kTokens = 6;
  const std::vector<float> logits = clear_logits(c, rig.random(), kTokens, rig.tensors());
  const Decisions free = rig.route(logits);
  const Decisions same = rig.route(logits, free.ids);
  EXPECT_EQ(same.ids, free.ids);
  EXPECT_TRUE(bytes_of(same.weights) == bytes_of(free.weights)) << "the ids that were chosen";
  std::vector<int32_t> forced;
  for (int64_t t = 0; t < kTokens; ++t)
    for (int64_t j = 0; j < c.k; ++j)  // the last experts, in falling order
      forced.push_back(t % 2 == 0 ? -1 : static_cast<int32_t>(c.e - 1 - j));
  const Decisions mixed = rig.route(logits, forced);
  for (int64_t t = 0; t < kTokens; ++t) {
    const float* row = &logits[static_cast<size_t>(t * c.e)];
    const auto first = forced.begin() + t * c.k;
    expect_decision(c, mixed, t,
                    t % 2 == 0 ? decide(c, rig.tensors(), row)
                               : weigh(c, rig.tensors(), row, {first, first + c.k}));
  }
}

using Run = void (*)(RouterRig&, const RouterCase&);

void add_cases(const Feature& feature, const char* subject, Run run, bool zero_bias = false) {
  for (const RouterCase& c : router_cases())
    add(feature, subject, c.label, [feature, c, run, zero_bias] {
      RouterRig rig(feature, c, false);
      if (zero_bias) std::fill(rig.tensors().bias.begin(), rig.tensors().bias.end(), 0.0f);
      rig.finish();
      run(rig, c);
    });
}

}  // namespace

// Distinct, valid ids and finite weights, whatever the logits; and nothing outside the row.
void router_odd_logits(RouterRig& rig, const RouterCase& c) {
  constexpr int64_t kTokens = 9;
  const auto e = static_cast<size_t>(c.e);
  const std::vector<float> clean = clear_logits(c, rig.random(), kTokens, rig.tensors());
  std::vector<float> dirty = clean;
  const auto fill = [&](size_t t, auto&& value) {
    for (size_t i = 0; i < e; ++i) dirty[t * e + i] = value(i);
  };
  fill(1, [](size_t) { return kNan; });
  fill(2, [](size_t) { return kInf; });
  fill(3, [](size_t) { return -kInf; });
  fill(5, [&](size_t i) { return i % 2 == 0 ? kNan : clean[5 * e + i]; });
  fill(6, [&](size_t i) { return i % 3 == 0 ? kInf : -kInf; });
  fill(7, [&](size_t i) { return i == e - 1 ? kInf : kNan; });
  const Decisions before = rig.route(clean);
  const Decisions after = rig.route(dirty);
  for (int64_t t = 0; t < kTokens; ++t) {
    std::vector<int32_t> ids = row_of_ids(c, after, t);
    if (t == 0 || t == 4 || t == 8) {
      EXPECT_EQ(ids, row_of_ids(c, before, t)) << "row " << t << " is not itself odd";
    }
    std::sort(ids.begin(), ids.end());
    EXPECT_TRUE(std::adjacent_find(ids.begin(), ids.end()) == ids.end())
        << "row " << t << " has an id twice";
    EXPECT_TRUE(ids.front() >= 0 && ids.back() < c.e) << "row " << t << " has an invalid id";
    for (int64_t j = 0; j < c.k; ++j)
      EXPECT_TRUE(std::isfinite(after.weights[static_cast<size_t>(t * c.k + j)]))
          << "row " << t << ", slot " << j;
  }
  if (!c.grouped() && !c.biased() && (c.is("topk") || c.is("sparsemixer"))) {
    EXPECT_EQ(after.ids[static_cast<size_t>(7 * c.k)], c.e - 1) << "the only logit that is no NaN";
  }
}

void router_same_bits(RouterRig& rig, const RouterCase& c) {
  if (!rig.deterministic()) throw Skip{"does not promise to be deterministic"};
  constexpr int64_t kTokens = 8;
  const std::vector<float> logits = clear_logits(c, rig.random(), kTokens, rig.tensors());
  const Decisions whole = rig.route(logits);
  rig.host().set_schedule(Schedule::threaded);
  const Decisions again = rig.route(logits);
  EXPECT_EQ(whole.ids, again.ids);
  EXPECT_TRUE(bytes_of(whole.weights) == bytes_of(again.weights)) << "the same batch on threads";
  Decisions single;
  for (int64_t t = 0; t < kTokens; ++t) {
    const auto first = logits.begin() + t * c.e;
    const Decisions row = rig.route({first, first + c.e});
    single.ids.insert(single.ids.end(), row.ids.begin(), row.ids.end());
    single.weights.insert(single.weights.end(), row.weights.begin(), row.weights.end());
  }
  EXPECT_EQ(whole.ids, single.ids);
  EXPECT_TRUE(bytes_of(whole.weights) == bytes_of(single.weights)) << "rows one by one";
}

void add_router_rows(const Feature& feature) {
  add_cases(feature, "Numbers", numbers);
  add_cases(feature, "Logits", logits);
  add_cases(feature, "ZeroTokens", zero_tokens);
  add_cases(feature, "TiesGoToTheLowerId", ties, true);
  add_cases(feature, "SaturatedScores", saturated);
  add_cases(feature, "OddLogits", router_odd_logits);
  add_cases(feature, "SameBits", router_same_bits);
  add_cases(feature, "Replay", replay);
}

}  // namespace moert::conformance
