// The rule of routing once more, from the headers, and rows whose decisions are clear.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>

#include "router.hpp"

namespace moert::conformance {
namespace {

constexpr double kClear = 1e-5;

std::vector<double> scores(const RouterCase& c, const float* logits) {
  std::vector<double> s;
  if (std::string_view(c.scoring) == "sigmoid") {
    for (int64_t e = 0; e < c.e; ++e)
      s.push_back(1.0 / (1.0 + std::exp(-static_cast<double>(logits[e]))));
    return s;
  }
  const auto top = static_cast<double>(*std::max_element(logits, logits + c.e));
  for (int64_t e = 0; e < c.e; ++e) s.push_back(std::exp(static_cast<double>(logits[e]) - top));
  const double sum = std::accumulate(s.begin(), s.end(), 0.0);
  for (double& value : s) value /= sum;
  return s;
}

// Indices by falling value; equal values by rising index.
std::vector<int32_t> ranked(const std::vector<double>& values) {
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const double left = values[static_cast<size_t>(a)];
    const double right = values[static_cast<size_t>(b)];
    return left != right ? left > right : a < b;
  });
  return order;
}

bool close(double a, double b) { return a != b && !(std::fabs(a - b) > kClear); }

// Which groups stay; clears `clear` if that is a near thing.
std::vector<bool> kept_groups(const RouterCase& c, const std::vector<double>& selection,
                              bool& clear) {
  const auto size = static_cast<size_t>(c.e / c.groups);
  std::vector<double> group_scores;
  for (size_t g = 0; g < static_cast<size_t>(c.groups); ++g) {
    std::vector<double> members(selection.begin() + static_cast<std::ptrdiff_t>(g * size),
                                selection.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
    std::sort(members.rbegin(), members.rend());
    const bool pair = std::string_view(c.group_score) == "top2_sum" && size > 1;
    group_scores.push_back(pair ? members[0] + members[1] : members[0]);
  }
  const std::vector<int32_t> order = ranked(group_scores);
  std::vector<bool> kept(static_cast<size_t>(c.groups), false);
  for (size_t n = 0; n < static_cast<size_t>(c.top_groups); ++n)
    kept[static_cast<size_t>(order[n])] = true;
  if (c.top_groups < c.groups) {
    const auto edge = static_cast<size_t>(c.top_groups);
    clear = clear && !close(group_scores[static_cast<size_t>(order[edge - 1])],
                            group_scores[static_cast<size_t>(order[edge])]);
  }
  return kept;
}

std::vector<double> selection_of(const std::vector<double>& s, const std::vector<float>& bias) {
  std::vector<double> selection = s;
  for (size_t e = 0; e < bias.size(); ++e) selection[e] += static_cast<double>(bias[e]);
  return selection;
}

void set_weights(const RouterCase& c, const std::vector<double>& s, Decision& d) {
  double sum = c.eps;
  for (const int32_t id : d.ids) sum += s[static_cast<size_t>(id)];
  const double divisor = (c.flags & MOERT_ROUTING_RENORMALIZE) != 0 ? sum : 1.0;
  for (const int32_t id : d.ids)
    d.weights.push_back(s[static_cast<size_t>(id)] / divisor * c.scale);
}

}  // namespace

Decision decide(const RouterCase& c, const float* logits, const std::vector<float>& bias) {
  Decision d;
  const std::vector<double> s = scores(c, logits);
  const std::vector<double> selection = selection_of(s, bias);
  // Scores rise with the logits; where nothing is added to them, the logits rank what saturates.
  std::vector<double> key = selection;
  if (bias.empty()) key.assign(logits, logits + c.e);
  std::vector<bool> kept(1, true);
  if (c.grouped())
    kept = kept_groups(c, std::string_view(c.group_score) == "max" ? key : selection, d.clear);
  std::vector<int32_t> order;
  for (const int32_t id : ranked(key))
    if (kept[c.grouped() ? static_cast<size_t>(id / (c.e / c.groups)) : 0]) order.push_back(id);
  const auto k = static_cast<size_t>(c.k);
  for (size_t j = 0; j + 1 < order.size() && j < k; ++j)
    d.clear = d.clear &&
              !close(key[static_cast<size_t>(order[j])], key[static_cast<size_t>(order[j + 1])]);
  d.ids.assign(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k));
  set_weights(c, s, d);
  d.margin = order.size() == k ? HUGE_VAL
                               : selection[static_cast<size_t>(order[k - 1])] -
                                     selection[static_cast<size_t>(order[k])];
  return d;
}

Decision weigh(const RouterCase& c, const float* logits, const std::vector<float>& bias,
               const std::vector<int32_t>& ids) {
  Decision d;
  d.ids = ids;
  const std::vector<double> s = scores(c, logits);
  const std::vector<double> selection = selection_of(s, bias);
  set_weights(c, s, d);
  double best = -HUGE_VAL;
  for (int32_t e = 0; e < static_cast<int32_t>(c.e); ++e)
    if (std::find(ids.begin(), ids.end(), e) == ids.end())
      best = std::max(best, selection[static_cast<size_t>(e)]);
  d.margin = selection[static_cast<size_t>(ids.back())] - best;
  return d;
}

std::vector<float> clear_logits(const RouterCase& c, Random& random, int64_t tokens,
                                const std::vector<float>& bias) {
  std::vector<float> all;
  for (int64_t t = 0; t < tokens; ++t) {
    std::vector<float> row(static_cast<size_t>(c.e));
    int tries = 0;
    do {
      for (float& x : row) x = static_cast<float>(4 * random.uniform());
      if (++tries > 1000) stop("no row of logits with a clear decision was found");
    } while (!decide(c, row.data(), bias).clear);
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

void expect_decision(const RouterCase& c, const Decisions& got, int64_t row, const Decision& want) {
  constexpr double kTolerance = 2e-6;
  for (int64_t j = 0; j < c.k; ++j) {
    const auto slot = static_cast<size_t>(row * c.k + j);
    const auto index = static_cast<size_t>(j);
    EXPECT_EQ(got.ids[slot], want.ids[index]) << "token " << row << ", slot " << j;
    const auto weight = static_cast<double>(got.weights[slot]);
    const double limit = kTolerance * std::fabs(want.weights[index]) + 1e-30;
    EXPECT_TRUE(std::fabs(weight - want.weights[index]) <= limit)
        << "token " << row << ", slot " << j << ": weight " << weight << ", want "
        << want.weights[index];
  }
  const auto margin = static_cast<double>(got.margins[static_cast<size_t>(row)]);
  EXPECT_TRUE(margin == want.margin || std::fabs(margin - want.margin) <= kTolerance)
      << "token " << row << ": margin " << margin << ", want " << want.margin;
}

}  // namespace moert::conformance
