// The rule of routing once more, from the headers, and rows whose decisions are clear.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>

#include "router.hpp"

namespace moert::conformance {
namespace {

constexpr double kClear = 1e-5;

std::vector<double> adjusted(const RouterCase& c, const float* logits) {
  const double factor = c.param("logit_scale", 1);
  const double cap = c.param("logit_softcap", 0);
  std::vector<double> x(logits, logits + c.e);
  for (double& value : x) value = cap > 0 ? cap * std::tanh(factor * value / cap) : factor * value;
  return x;
}

// Only the entries of `in` share the mass; the others get 0.
std::vector<double> softmax(const std::vector<double>& x, const std::vector<bool>& in) {
  double top = -HUGE_VAL;
  for (size_t e = 0; e < x.size(); ++e)
    if (in[e]) top = std::max(top, x[e]);
  std::vector<double> s;
  for (size_t e = 0; e < x.size(); ++e) s.push_back(in[e] ? std::exp(x[e] - top) : 0.0);
  const double sum = std::accumulate(s.begin(), s.end(), 0.0);
  for (double& value : s) value /= sum;
  return s;
}

std::vector<double> scores(const RouterCase& c, const std::vector<double>& x) {
  const std::string_view scoring = c.scoring;
  if (scoring == "softmax") return softmax(x, std::vector<bool>(x.size(), true));
  std::vector<double> s = x;  // softmax_topk
  for (double& value : s) {
    if (scoring == "sigmoid") value = 1.0 / (1.0 + std::exp(-value));
    if (scoring == "sqrtsoftplus")
      value = std::sqrt(std::max(value, 0.0) + std::log1p(std::exp(-std::fabs(value))));
  }
  return s;
}

// A row with everything that follows from its logits.
struct Row {
  Row(const RouterCase& the_case, const RouterTensors& the_tensors, const float* logits)
      : c(the_case), tensors(the_tensors), x(adjusted(c, logits)), score(scores(c, x)) {
    selection = c.has(MOERT_ROUTING_BIAS_ON_LOGITS) ? x : score;
    for (size_t e = 0; e < tensors.bias.size(); ++e)
      selection[e] += static_cast<double>(tensors.bias[e]);
    // Scores rise with the logits; where nothing is added to them, the logits rank what saturates.
    key = selection;
    if (tensors.bias.empty()) key.assign(logits, logits + c.e);
  }
  const RouterCase& c;
  const RouterTensors& tensors;
  std::vector<double> x, score, selection, key;
};

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
std::vector<bool> kept_groups(const Row& row, bool& clear) {
  const RouterCase& c = row.c;
  const auto size = static_cast<size_t>(c.e / c.groups);
  const std::vector<double>& values = c.sums_scores() ? row.selection : row.key;
  std::vector<double> group_scores;
  for (size_t g = 0; g < static_cast<size_t>(c.groups); ++g) {
    std::vector<double> members(values.begin() + static_cast<std::ptrdiff_t>(g * size),
                                values.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
    std::sort(members.rbegin(), members.rend());
    group_scores.push_back(c.sums_scores() ? members[0] + members[1] : members[0]);
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

// The first `k` of `candidates`, which are ranked, and how far the next one was.
void take(const Row& row, const std::vector<int32_t>& candidates, size_t k, Decision& d) {
  const auto at = [&](const std::vector<double>& values, size_t j) {
    return values[static_cast<size_t>(candidates[j])];
  };
  for (size_t j = 0; j + 1 < candidates.size() && j < k; ++j)
    d.clear = d.clear && !close(at(row.key, j), at(row.key, j + 1));
  d.ids.insert(d.ids.end(), candidates.begin(),
               candidates.begin() + static_cast<std::ptrdiff_t>(k));
  if (candidates.size() > k)
    d.margin = std::min(d.margin, at(row.selection, k - 1) - at(row.selection, k));
}

void choose(const Row& row, Decision& d) {
  const RouterCase& c = row.c;
  std::vector<bool> kept(1, true);
  if (c.grouped()) kept = kept_groups(row, d.clear);
  std::vector<int32_t> candidates;
  for (const int32_t id : ranked(row.key))
    if (kept[c.grouped() ? static_cast<size_t>(id / (c.e / c.groups)) : 0])
      candidates.push_back(id);
  take(row, candidates, static_cast<size_t>(c.k), d);
}

// Each group gives its share; the slots of all of them stand in one order.
void choose_by_group(const Row& row, Decision& d) {
  const RouterCase& c = row.c;
  const std::vector<int32_t> order = ranked(row.key);
  for (int64_t g = 0; g < c.groups; ++g) {
    std::vector<int32_t> members;
    for (const int32_t id : order)
      if (id / (c.e / c.groups) == g) members.push_back(id);
    take(row, members, static_cast<size_t>(c.k / c.groups), d);
  }
  std::vector<int32_t> sorted;
  for (const int32_t id : order)
    if (std::find(d.ids.begin(), d.ids.end(), id) != d.ids.end()) sorted.push_back(id);
  d.ids = sorted;
  for (size_t j = 0; j + 1 < sorted.size(); ++j)
    d.clear = d.clear && !close(row.key[static_cast<size_t>(sorted[j])],
                                row.key[static_cast<size_t>(sorted[j + 1])]);
}

// A softmax over what is not far below the best one; without `removed`, if that is an expert.
double mixed(const Row& row, int32_t removed, int32_t id, bool& clear) {
  const double limit = 2 * row.c.param("jitter_eps", 0.01);
  double top = -HUGE_VAL;
  for (size_t e = 0; e < row.x.size(); ++e)
    if (static_cast<int32_t>(e) != removed) top = std::max(top, row.x[e]);
  std::vector<bool> in;
  for (size_t e = 0; e < row.x.size(); ++e) {
    const double divisor = std::max(std::fabs(row.x[e]), top);
    const double distance = divisor == 0 ? 0.0 : (top - row.x[e]) / divisor;
    clear = clear && !(std::fabs(distance - limit) <= kClear);
    in.push_back(static_cast<int32_t>(e) != removed && distance <= limit);
  }
  return softmax(row.x, in)[static_cast<size_t>(id)];
}

void set_weights(const Row& row, Decision& d) {
  const RouterCase& c = row.c;
  std::vector<bool> chosen(row.x.size(), false);
  for (const int32_t id : d.ids) chosen[static_cast<size_t>(id)] = true;
  std::vector<double> s = row.score;
  if (std::string_view(c.scoring) == "softmax_topk") s = softmax(row.x, chosen);
  if (c.is("sparsemixer")) {
    const double first = mixed(row, -1, d.ids[0], d.clear);
    const double second = mixed(row, d.ids[0], d.ids[1], d.clear);
    s[static_cast<size_t>(d.ids[0])] = first;
    s[static_cast<size_t>(d.ids[1])] = second;
  }
  double sum = c.eps;
  for (const int32_t id : d.ids) sum += s[static_cast<size_t>(id)];
  const double divisor = std::max(sum, c.param("renormalize_floor", 0));
  for (const int32_t id : d.ids) {
    const auto e = static_cast<size_t>(id);
    const double w = c.has(MOERT_ROUTING_RENORMALIZE) ? s[e] / divisor : s[e];
    const double factor =
        row.tensors.expert_scale.number.empty() ? 1.0 : row.tensors.expert_scale.number[e];
    d.weights.push_back(w * c.scale * factor);
  }
}

}  // namespace

Decision decide(const RouterCase& c, const RouterTensors& tensors, const float* logits) {
  if (c.is("hash")) {
    const auto first = tensors.table.begin() + RouterTensors::token_of(c, logits) * c.k;
    return weigh(c, tensors, logits, {first, first + c.k});
  }
  Decision d;
  d.margin = HUGE_VAL;
  const Row row(c, tensors, logits);
  if (c.is("group_topk"))
    choose_by_group(row, d);
  else
    choose(row, d);
  set_weights(row, d);
  return d;
}

Decision weigh(const RouterCase& c, const RouterTensors& tensors, const float* logits,
               const std::vector<int32_t>& ids) {
  Decision d;
  d.ids = ids;
  d.margin = HUGE_VAL;
  const Row row(c, tensors, logits);
  set_weights(row, d);
  if (c.is("hash")) return d;
  for (int32_t e = 0; e < static_cast<int32_t>(c.e); ++e)
    if (std::find(ids.begin(), ids.end(), e) == ids.end())
      d.margin = std::min(d.margin, row.selection[static_cast<size_t>(ids.back())] -
                                        row.selection[static_cast<size_t>(e)]);
  return d;
}

std::vector<float> clear_logits(const RouterCase& c, Random& random, int64_t tokens,
                                const RouterTensors& tensors) {
  std::vector<float> all;
  for (int64_t t = 0; t < tokens; ++t) {
    std::vector<float> row(static_cast<size_t>(c.e));
    int tries = 0;
    do {
      for (float& x : row) x = static_cast<float>(4 * random.uniform());
      if (++tries > 1000) stop("no row of logits with a clear decision was found");
    } while (!decide(c, tensors, row.data()).clear);
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

Expected expected_logits(const RouterCase& c, const RouterTensors& tensors, const Values& hidden,
                         int64_t tokens) {
  const bool norm = c.has(MOERT_ROUTING_INPUT_NORM);
  Expected want;
  for (int64_t t = 0; t < tokens; ++t) {
    const auto first = hidden.number.begin() + t * RouterCase::h;
    std::vector<double> x(first, first + RouterCase::h);
    const double mean =
        std::inner_product(x.begin(), x.end(), x.begin(), 0.0) / static_cast<double>(RouterCase::h);
    const double rms = std::sqrt(mean + c.param("input_norm_eps", 0));
    for (size_t i = 0; norm && i < x.size(); ++i)
      x[i] = x[i] / rms * c.param("input_gain", 1) * tensors.input_scale.number[i];
    for (size_t e = 0; e < static_cast<size_t>(c.e); ++e) {
      double sum = tensors.gate_bias.number.empty() ? 0.0 : tensors.gate_bias.number[e];
      double size = std::fabs(sum);
      for (size_t i = 0; i < x.size(); ++i) {
        const double product = x[i] * tensors.gate.number[e * x.size() + i];
        sum += product;
        size += std::fabs(product);
      }
      want.value.push_back(sum);
      // The norm is a sum as long, a root and three factors more.
      want.tolerance.push_back((norm ? 8 : 4) * std::sqrt(33.0) * 0x1p-24 * size);
    }
  }
  return want;
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
  const double limit = kTolerance * std::max(1.0, std::fabs(want.margin));
  EXPECT_TRUE(margin == want.margin || std::fabs(margin - want.margin) <= limit)
      << "token " << row << ": margin " << margin << ", want " << want.margin;
}

}  // namespace moert::conformance
