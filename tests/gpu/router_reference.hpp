// The rule of routing once more, in plain f64 loops over sorted lists: docs/numerics.md, "Routing".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "gpu/router/rule.hpp"

namespace moert::gpu {

// What a rule is loaded with; empty where it has none.
struct RuleTensors {
  std::vector<float> bias;
  std::vector<double> expert_scale, log_p;
};

struct Routed {
  std::vector<int32_t> ids;
  std::vector<double> weights;
  double margin = HUGE_VAL;
};

class RouterReference {
 public:
  RouterReference(const Rule& rule, const RuleTensors& tensors, std::vector<float> logits)
      : rule_(rule), tensors_(tensors), logits_(std::move(logits)) {
    if (rule.method == Method::simulated) {
      draw();
      return;
    }
    for (const float logit : logits_) x_.push_back(adjusted(logit));
    score_ = x_;
    if (rule.scoring == Scoring::softmax) score_ = softmax(x_);
    for (size_t e = 0; e < x_.size(); ++e) {
      if (rule.scoring == Scoring::sigmoid) score_[e] = 1 / (1 + std::exp(-x_[e]));
      if (rule.scoring == Scoring::sqrtsoftplus) {
        const double x = std::min(x_[e], static_cast<double>(3.4028234663852886e38f));
        score_[e] = std::sqrt(std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))));
      }
      double selection = score_[e];
      if (rule.biased)
        selection =
            (rule.bias_on_logits ? x_[e] : score_[e]) + static_cast<double>(tensors.bias[e]);
      const bool nan = std::isnan(logits_[e]) || std::isnan(selection);
      selection_.push_back(nan ? -HUGE_VAL : selection);
      key_.push_back(nan || rule.biased ? selection_[e] : static_cast<double>(logits_[e]));
    }
  }

  Routed route() const {
    Routed row;
    if (rule_.method == Method::group_topk)
      each_group(row);
    else
      row.ids = first(kept(), rule_.top_k, &row.margin);
    row.weights = weights(row.ids);
    return row;
  }
  // Of ids that are given.
  Routed weigh(const std::vector<int32_t>& ids) const {
    Routed row{ids, weights(ids)};
    if (rule_.method == Method::hash || rule_.method == Method::simulated) return row;
    for (int32_t e = 0; e < rule_.num_experts; ++e)
      if (std::find(ids.begin(), ids.end(), e) == ids.end())
        row.margin = std::min(row.margin, gap(ids.back(), e));
    return row;
  }

 private:
  using Ids = std::vector<int32_t>;

  double adjusted(float logit) const {
    if (std::isnan(logit)) return -HUGE_VAL;
    const double x = rule_.logit_scale * static_cast<double>(logit);
    const double cap = rule_.logit_softcap;
    return cap > 0 ? cap * std::tanh(x / cap) : x;
  }

  static std::vector<double> softmax(const std::vector<double>& x) {
    const double top = *std::max_element(x.begin(), x.end());
    std::vector<double> s(x.size(), 0.0);
    for (size_t e = 0; e < x.size() && top != -HUGE_VAL; ++e)
      s[e] = x[e] == top ? 1 : std::exp(x[e] - top);
    const double sum = std::accumulate(s.begin(), s.end(), 0.0);
    for (double& value : s) value = sum == 0 ? 0 : value / sum;
    return s;
  }

  void draw() {
    constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
    const auto mix = [](uint64_t z) {
      z += kStep;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      return z ^ (z >> 31);
    };
    uint64_t all = 0;
    for (size_t e = 0; e < logits_.size(); ++e) {
      uint32_t bits = 0;
      std::memcpy(&bits, &logits_[e], sizeof bits);
      all += mix(static_cast<uint64_t>(e) << 32 | bits);
    }
    const uint64_t row = mix(mix(mix(rule_.seed) ^ static_cast<uint64_t>(rule_.layer_id)) ^ all);
    for (size_t e = 0; e < logits_.size(); ++e) {
      const double u = (static_cast<double>(mix(row + e * kStep) >> 12) + 0.5) * 0x1p-52;
      key_.push_back(tensors_.log_p[e] - std::log(-std::log(u)));
    }
  }

  Ids ranked(Ids ids) const {
    std::sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
      const double left = key_[static_cast<size_t>(a)], right = key_[static_cast<size_t>(b)];
      return left != right ? left > right : a < b;
    });
    return ids;
  }
  Ids members(int32_t group) const {
    const int32_t size = rule_.num_experts / rule_.num_groups;
    Ids ids(static_cast<size_t>(size));
    std::iota(ids.begin(), ids.end(), group * size);
    return ids;
  }

  double gap(int32_t in, int32_t out) const {
    const double a = selection_[static_cast<size_t>(in)], b = selection_[static_cast<size_t>(out)];
    return a == b ? 0 : a - b;
  }
  // The best k of them; lowers `margin` to how close the next one came.
  Ids first(const Ids& of, int64_t k, double* margin) const {
    Ids ids = ranked(of);
    const auto count = static_cast<size_t>(k);
    if (rule_.method != Method::simulated)
      for (size_t j = count; j < ids.size(); ++j)
        *margin = std::min(*margin, gap(ids[count - 1], ids[j]));
    ids.resize(count);
    return ids;
  }

  double group_score(int32_t group) const {
    const Ids ids = members(group);
    const bool pair = rule_.top2 && ids.size() > 1;
    std::vector<double> values;
    for (const int32_t e : ids)
      values.push_back((pair ? selection_ : key_)[static_cast<size_t>(e)]);
    std::sort(values.rbegin(), values.rend());
    return pair ? values[0] + values[1] : values[0];
  }
  Ids kept() const {
    Ids groups(static_cast<size_t>(rule_.num_groups));
    std::iota(groups.begin(), groups.end(), 0);
    if (rule_.grouped)
      std::sort(groups.begin(), groups.end(), [&](int32_t a, int32_t b) {
        const double left = group_score(a), right = group_score(b);
        return left != right ? left > right : a < b;
      });
    Ids ids;
    for (int32_t n = 0; n < rule_.top_groups; ++n)
      for (const int32_t e : members(groups[static_cast<size_t>(n)])) ids.push_back(e);
    return ids;
  }
  void each_group(Routed& row) const {
    Ids all;
    for (int32_t g = 0; g < rule_.num_groups; ++g)
      for (const int32_t e : first(members(g), rule_.top_k / rule_.num_groups, &row.margin))
        all.push_back(e);
    row.ids = ranked(all);
  }

  double mixed(int32_t removed, int32_t id) const {
    double top = -HUGE_VAL;
    for (int32_t e = 0; e < rule_.num_experts; ++e)
      if (e != removed) top = std::max(top, x_[static_cast<size_t>(e)]);
    std::vector<double> left = x_;
    for (int32_t e = 0; e < rule_.num_experts; ++e) {
      double& x = left[static_cast<size_t>(e)];
      if (e == removed || (top - x) / std::max(std::fabs(x), top) > 2 * rule_.jitter_eps)
        x = -HUGE_VAL;
    }
    return softmax(left)[static_cast<size_t>(id)];
  }
  std::vector<double> weights(const Ids& ids) const {
    std::vector<double> w;
    if (rule_.method == Method::simulated)
      return std::vector<double>(ids.size(), rule_.routed_scale / static_cast<double>(ids.size()));
    for (const int32_t e : ids) w.push_back(score_[static_cast<size_t>(e)]);
    if (rule_.scoring == Scoring::softmax_topk) w = softmax(w);
    if (rule_.method == Method::sparsemixer) w = {mixed(-1, ids[0]), mixed(ids[0], ids[1])};
    double sum = std::accumulate(w.begin(), w.end(), rule_.renormalize_eps);
    sum = rule_.renormalize ? std::max(sum, rule_.renormalize_floor) : 1;
    for (size_t j = 0; j < w.size(); ++j) {
      w[j] = sum == 0 ? 0 : w[j] / sum * rule_.routed_scale;
      if (!tensors_.expert_scale.empty())
        w[j] *= tensors_.expert_scale[static_cast<size_t>(ids[j])];
    }
    return w;
  }

  Rule rule_;
  RuleTensors tensors_;
  std::vector<float> logits_;
  std::vector<double> x_, score_, selection_, key_;
};

}  // namespace moert::gpu
