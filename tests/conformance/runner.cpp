// moe_runner: a whole layer, of the plugin's own parts or without any, against the suite's numbers.
// SPDX-License-Identifier: Apache-2.0
#include "runner.hpp"

#include <algorithm>
#include <cmath>

#include "kinds.hpp"

namespace moert::conformance {
namespace {

// y = W x, rows of `cols` numbers.
std::vector<double> product(const Values& matrix, const std::vector<double>& x, size_t rows) {
  std::vector<double> y(rows, 0.0);
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < x.size(); ++c) y[r] += matrix.number[r * x.size() + c] * x[c];
  return y;
}

double norm_factor(const std::vector<double>& x) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  return 1 / std::sqrt(squares / static_cast<double>(x.size()) + RunnerCase::eps);
}

}  // namespace

// What experts read: latent width, then the norm.
std::vector<double> RunnerRig::expert_row(const double* x) const {
  std::vector<double> row(x, x + RunnerCase::h);
  if (case_.latent > 0)
    row = rounded(case_.dtype, product(down_, row, static_cast<size_t>(case_.latent))).number;
  if (!case_.norm_in) return row;
  const double factor = norm_factor(row);
  for (size_t c = 0; c < row.size(); ++c) row[c] *= factor * norm_.number[c];
  return rounded(case_.dtype, row).number;
}

Expected RunnerRig::expected_row(const RunnerRows& rows, int64_t t,
                                 const std::function<int32_t(int64_t, int32_t)>& local) const {
  const double* x = &rows.hidden.number[static_cast<size_t>(t * RunnerCase::h)];
  const auto h = static_cast<size_t>(RunnerCase::h), width = static_cast<size_t>(case_.width());
  // Rows that pass through a width or a norm of their own may be rounded there once more.
  const double x_error = case_.latent > 0 || case_.norm_in ? 4 * roundoff(case_.dtype) : 0;
  const std::vector<double> z = expert_row(x);
  std::vector<double> sum(width, 0.0), error(width, 0.0);
  double zero = 0;
  for (int64_t j = 0; j < RunnerCase::k; ++j) {
    const auto slot = static_cast<size_t>(t * RunnerCase::k + j);
    const int32_t id = rows.decisions.ids[slot];
    const auto w = static_cast<double>(rows.decisions.weights[slot]);
    if (id >= RunnerCase::experts) zero += w * case_.output_scale;
    const int32_t serves = id < 0 || id >= RunnerCase::experts ? -1 : local ? local(t, id) : id;
    if (serves < 0) continue;
    const Expected y =
        mlp_row(experts_[static_cast<size_t>(serves)], z.data(), x_error, case_.dtype);
    for (size_t c = 0; c < width; ++c) {
      sum[c] += w * y.value[c];
      error[c] += std::fabs(w) * (y.tolerance[c] + 1e-6 * std::fabs(y.value[c]));
    }
  }
  if (case_.norm_out) {
    const double factor = norm_factor(sum);
    for (size_t c = 0; c < width; ++c) {
      sum[c] *= factor * norm_.number[c];
      error[c] *= 3 * factor * std::fabs(norm_.number[c]);  // the factor is off as well
    }
  }
  Expected row{sum, error};
  if (case_.latent > 0) {
    row.value = product(up_, sum, h);
    row.tolerance.assign(h, 0.0);
    for (size_t r = 0; r < h; ++r)
      for (size_t c = 0; c < width; ++c)
        row.tolerance[r] += std::fabs(up_.number[r * width + c]) * error[c];
  }
  Expected shared;
  if (shared_) shared = mlp_row(*shared_, x, 0, case_.dtype);
  const double share = case_.shared_scale != 0 ? case_.shared_scale : 1;
  for (size_t c = 0; c < h; ++c) {
    row.value[c] *= case_.output_scale;
    row.tolerance[c] *= case_.output_scale;
    if (case_.bias) row.value[c] += bias_.number[c];
    if (shared_) {
      row.value[c] += share * shared.value[c];
      row.tolerance[c] += share * shared.tolerance[c];
    }
    row.value[c] += zero * x[c];
    if (rows.padded(t)) row.value[c] = row.tolerance[c] = 0;
  }
  add_rounding(row, case_.dtype);
  return row;
}

Decision RunnerRig::rule(const RunnerRows& rows, int64_t t) const {
  const float* logits = &rows.logits[static_cast<size_t>(t * router_case_.e)];
  if (!case_.hash) return decide(router_case_, router_, logits);
  const auto first = router_.table.begin() + rows.token_ids[static_cast<size_t>(t)] * RunnerCase::k;
  return weigh(router_case_, router_, logits, {first, first + RunnerCase::k});
}

void RunnerRig::expect(const RunnerRows& rows,
                       const std::function<int32_t(int64_t, int32_t)>& local) const {
  const auto k = static_cast<size_t>(RunnerCase::k);
  Expected want;
  for (int64_t t = 0; t < rows.tokens; ++t) {
    const auto at = static_cast<size_t>(t) * k;
    const bool forced = !rows.forced.empty() && rows.forced[at] >= 0;
    if (rows.padded(t)) {
      for (size_t j = 0; j < k; ++j) {
        EXPECT_EQ(rows.decisions.ids[at + j], -1) << "padded row " << t;
        EXPECT_EQ(rows.decisions.weights[at + j], 0.0f) << "padded row " << t;
      }
    } else if (forced) {
      for (size_t j = 0; j < k; ++j)
        EXPECT_EQ(rows.decisions.ids[at + j], rows.forced[at + j]) << "forced row " << t;
    } else {
      const Decision want_row = rule(rows, t);
      if (want_row.clear) expect_decision(router_case_, rows.decisions, t, want_row);
    }
    const Expected row = expected_row(rows, t, local);
    want.value.insert(want.value.end(), row.value.begin(), row.value.end());
    want.tolerance.insert(want.tolerance.end(), row.tolerance.begin(), row.tolerance.end());
  }
  if (rows.tokens > 0)
    expect_near(decoded(case_.dtype, rows.out), want, RunnerCase::h,
                std::vector<std::string>(static_cast<size_t>(rows.tokens), case_.label));
}

namespace {

constexpr int64_t kTokens = 7;

void numbers(const Feature& feature, const RunnerCase& c) {
  RunnerRig rig(feature, c);
  RunnerRows rows = rig.rows(kTokens);
  rig.forward(rows);
  rig.expect(rows);
}

// Padded rows have no ids and an output of 0, count nowhere, and change nothing beside them.
void padded_rows(const Feature& feature, const RunnerCase& c) {
  RunnerRig rig(feature, c);
  RunnerRows rows = rig.rows(kTokens), all = rows;
  rows.valid = {0, 1, 1, 0, 1, 0, 0};
  rig.forward(rows);
  rig.expect(rows);
  std::vector<int64_t> want(static_cast<size_t>(c.ids()), 0);
  for (const int32_t id : rows.decisions.ids)
    if (id >= 0) ++want[static_cast<size_t>(id)];
  EXPECT_EQ(rig.statistics(false), want);
  EXPECT_EQ(rig.statistics(true), want) << "reading without a reset";
  EXPECT_EQ(rig.statistics(true), std::vector<int64_t>(want.size(), 0)) << "after a reset";
  rig.forward(all);
  const auto row = rows.out.size() / kTokens;
  for (const size_t t : {size_t{1}, size_t{2}, size_t{4}})
    EXPECT_EQ(std::memcmp(&rows.out[t * row], &all.out[t * row], row), 0)
        << "row " << t << " changed with the rows beside it";
}

// What stands in a padded row is nobody's: ids that no expert has, or that come twice, are neither wrong nor forced, and
// no token is looked for.
void stale_rows(const Feature& feature, const RunnerCase& c) {
  RunnerRig rig(feature, c);
  RunnerRows rows = rig.rows(kTokens);
  rows.valid = {0, 1, 1, 0, 1, 0, 0};
  const std::vector<std::vector<int32_t>> forced = {
      {0, 1, INT32_MAX}, {4, 0, 2},          {-1, -1, -1}, {1, 1, 1},
      {-1, -1, -1},      {-1, 3, INT32_MIN}, {5, 0, 1}};
  for (const std::vector<int32_t>& row : forced)
    rows.forced.insert(rows.forced.end(), row.begin(), row.end());
  if (c.hash) {
    const auto last = RouterTensors::kVocabulary - 1;
    rows.token_ids = {INT64_MAX, 0, last, last + 1, 5, INT64_MIN, 3};
  }
  rig.forward(rows);
  rig.expect(rows);
}

void zero_tokens(const Feature& feature, const RunnerCase& c) {
  RunnerRig rig(feature, c);
  RunnerRows none = rig.rows(0);
  rig.forward(none);
  EXPECT_TRUE(none.out.empty());
  RunnerRows rows = rig.rows(1);
  rig.forward(rows);
  rig.expect(rows);
}

// Rows of -1 route by the rule; zero experts can be forced like others.
void forced_ids(const Feature& feature, const RunnerCase& c) {
  RunnerRig rig(feature, c);
  RunnerRows rows = rig.rows(kTokens);
  rows.forced.assign(kTokens * RunnerCase::k, -1);
  const auto last = static_cast<int32_t>(c.ids() - 1);
  const std::vector<int32_t> one = {last, 0, 2}, two = {1, last, 3};
  std::copy(one.begin(), one.end(), rows.forced.begin());
  std::copy(two.begin(), two.end(), rows.forced.begin() + 4 * RunnerCase::k);
  rig.forward(rows);
  rig.expect(rows);
}

// Given logits are read, not computed: others than the rows' own choose others.
void given_logits(const Feature& feature, const RunnerCase& c) {
  RunnerRig rig(feature, c);
  RunnerRows rows = rig.rows(kTokens);
  const RouterCase router = c.router();
  rows.logits = clear_logits(router, rig.random, kTokens, RouterTensors(router, rig.random));
  const std::vector<float> given = rows.logits;
  rig.forward(rows);
  EXPECT_EQ(rows.logits, given) << "the logits that were given changed";
  rig.expect(rows);
}

// Maps place experts: a local one stands under one logical expert at most.
constexpr int64_t kCopies = 3;
RunnerCase placed(const char* label) {
  return {.label = label, .redundant = (kCopies - 1) * RunnerCase::experts};
}

// Two copies of an expert take turns by row, one that is not here adds nothing, and ids stay logical.
void expert_map(const Feature& feature) {
  RunnerRig rig(feature, placed("map"));
  const std::vector<int32_t> map = {5, 16, -1, -1, 2, -1, 9, -1, 1, 0, 17, -1};
  rig.set_map(map, 2);
  std::vector<int32_t> back(map.size(), -7);
  const TensorView view(back.data(), MOERT_DTYPE_I32, {RunnerCase::experts, 2});
  must("expert_map", [&](auto* e) { return rig.table.expert_map(rig.self, view, e); });
  EXPECT_EQ(back, map);
  RunnerRows rows = rig.rows(kTokens);
  rows.forced.assign(kTokens * RunnerCase::k, -1);
  const std::vector<int32_t> missing = {1, 0, 4};
  std::copy(missing.begin(), missing.end(), rows.forced.begin());
  std::copy(missing.begin(), missing.end(), rows.forced.begin() + RunnerCase::k);
  rig.forward(rows);
  rig.expect(rows, [&](int64_t t, int32_t id) {
    const int32_t* copies = &map[static_cast<size_t>(id) * 2];
    return copies[1] < 0 ? copies[0] : copies[t % 2];
  });
}

// Recorded before any other forward and any map, and obeying every one since, whatever its number of copies.
void expert_map_graph(const Feature& feature) {
  RunnerRig rig(feature, placed("map_graph"));
  if ((rig.support.flags & MOERT_SUPPORT_GRAPH_SAFE) == 0) throw Skip{"promises no graphs"};
  if (rig.place.device()->graph_begin == nullptr) throw Skip{"the device has no graphs"};
  RunnerRows rows = rig.rows(kTokens);
  RunnerRig::Call call(rig, rows);
  Recording recording(rig.place, [&] { call.run(); });
  const std::vector<std::vector<int32_t>> maps = {
      {},
      {5, 4, 3, 2, 1, 0},
      {5, 16, 6, -1, 2, -1, 9, -1, 1, 0, 17, -1},
      {0, 1, 2, 6, 7, 8, 17, 16, 15, 3, 9, 10, 4, 11, 5, 14, 12, 13},
      {1, 2, 3, 4, 5, 17}};
  for (const std::vector<int32_t>& map : maps) {
    const auto copies = static_cast<int64_t>(map.size()) / RunnerCase::experts;
    if (copies > 0) rig.set_map(map, copies);
    call.out.buffer().write(Bytes(call.out.buffer().bytes(), 0xff));
    recording.launch();
    call.read(rows);
    rig.expect(rows, [&](int64_t t, int32_t id) {
      if (copies == 0) return id;
      const int32_t* row = &map[static_cast<size_t>(id * copies)];
      const int64_t held = std::count_if(row, row + copies, [](int32_t own) { return own >= 0; });
      return row[t % held];
    });
  }
}

// A runner that declines whatever it is asked passes nothing, and neither does one whose plugin has not the parts that it
// takes. One without parts needs none.
void accepts_something(const Feature& feature) {
  for (const RunnerCase& c : runner_cases()) try {
      const RunnerRig rig(feature, c);
      return;
    } catch (const Skip&) {  // another case may do
    }
  ADD_FAILURE() << "every case was declined";
}

}  // namespace

void add_runner_tests(const Feature& feature) {
  add(feature, "AcceptsSomething", "", [=] { accepts_something(feature); });
  for (const RunnerCase& c : runner_cases()) {
    add(feature, "Numbers", c.label, [=] { numbers(feature, c); });
    add(feature, "PaddedRows", c.label, [=] { padded_rows(feature, c); });
  }
  const RunnerCase plain = {.label = "plain"}, zero = {.label = "zero_experts", .zero = 3},
                   hash = {.label = "hash", .hash = true};
  for (const RunnerCase& c : {plain, zero, hash}) {
    add(feature, "StaleRows", c.label, [=] { stale_rows(feature, c); });
    add(feature, "ZeroTokens", c.label, [=] { zero_tokens(feature, c); });
    add(feature, "ForcedIds", c.label, [=] { forced_ids(feature, c); });
    add(feature, "GivenLogits", c.label, [=] { given_logits(feature, c); });
  }
  add(feature, "ExpertMap", "", [=] { expert_map(feature); });
  if (feature.device != nullptr && feature.device->kind != MOERT_DEVICE_CPU)
    add(feature, "ExpertMap", "graph", [=] { expert_map_graph(feature); });
}

}  // namespace moert::conformance
