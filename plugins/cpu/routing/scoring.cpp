// From logits to scores, in f64.
// SPDX-License-Identifier: Apache-2.0
#include "scoring.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace moert::cpu {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// Grows without end, so plus infinity is read as the largest f32: its score is still a number.
double sqrtsoftplus(double x) {
  x = std::min(x, static_cast<double>(std::numeric_limits<float>::max()));
  return std::sqrt(x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)));
}

}  // namespace

double adjusted(const RoutingParams& params, float logit) {
  if (std::isnan(logit)) return -HUGE_VAL;
  const double x = params.logit_scale * static_cast<double>(logit);
  return params.logit_softcap > 0 ? params.logit_softcap * std::tanh(x / params.logit_softcap) : x;
}

void softmax(const double* x, int64_t n, double* out) {
  const double top = *std::max_element(x, x + n);
  double sum = 0;
  for (int64_t e = 0; e < n; ++e) {
    // The difference of equal infinities would be NaN.
    out[e] = top == -HUGE_VAL ? 0.0 : x[e] == top ? 1.0 : std::exp(x[e] - top);
    sum += out[e];
  }
  if (sum == 0) return;
  for (int64_t e = 0; e < n; ++e) out[e] /= sum;
}

void scores(Scoring scoring, const double* x, int64_t n, double* out) {
  switch (scoring) {
    case Scoring::softmax: softmax(x, n, out); break;
    case Scoring::softmax_topk: std::copy(x, x + n, out); break;
    case Scoring::sigmoid: std::transform(x, x + n, out, sigmoid); break;
    case Scoring::sqrtsoftplus: std::transform(x, x + n, out, sqrtsoftplus); break;
  }
}

double sparsemixer_weight(const double* x, int64_t n, double jitter_eps, int64_t removed,
                          int64_t expert, double* scratch) {
  double top = -HUGE_VAL;
  for (int64_t e = 0; e < n; ++e)
    if (e != removed) top = std::max(top, x[e]);
  for (int64_t e = 0; e < n; ++e) {
    // 0 / 0 and what infinities make of it are NaN, which masks nobody.
    const double distance = (top - x[e]) / std::max(std::fabs(x[e]), top);
    scratch[e] = e == removed || distance > 2 * jitter_eps ? -HUGE_VAL : x[e];
  }
  softmax(scratch, n, scratch);
  return scratch[expert];
}

}  // namespace moert::cpu
