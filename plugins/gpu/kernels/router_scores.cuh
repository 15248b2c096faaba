// From the logits of a token to scores, and to what orders the choice: stages of kernels/router.cuh.
// SPDX-License-Identifier: Apache-2.0
//
// Experts are dealt to the lanes of a warp: lane l has experts l, l + W, ... and alone writes what belongs to them.
#pragma once

#include <cmath>
#include <cstring>

#include "../router/route.hpp"
#include "lanes.cuh"

namespace moert::gpu::router {

constexpr double kInfinity = HUGE_VAL;

// A token's state in shared memory. An expert or group that may not be chosen any more has the key NaN.
struct State {
  double* key;       // [E]: what orders the choice
  double* score;     // [E]: what weighs
  double* group;     // [num_groups]
  double* slot_key;  // [k]: keys of the chosen
  double* weight;    // [k]
  int32_t* ids;      // [k]
};

MOERT_DEVICE bool is_nan(double x) { return x != x; }

// One row of logits.
struct Logits {
  const float* data;
  int64_t stride;
  MOERT_DEVICE float operator[](int e) const { return data[e * stride]; }
};

// Scaled and capped; NaN reads as minus infinity.
MOERT_DEVICE double adjusted(const Rule& rule, float logit) {
  if (logit != logit) return -kInfinity;
  const double x = rule.logit_scale * static_cast<double>(logit);
  return rule.logit_softcap > 0 ? rule.logit_softcap * tanh(x / rule.logit_softcap) : x;
}

MOERT_DEVICE double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

// Grows without end, so plus infinity is read as the largest f32: its score is still a number.
MOERT_DEVICE double sqrtsoftplus(double x) {
  const double most = 3.4028234663852886e38;
  x = x > most ? most : x;
  return sqrt(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)));
}

// A number's part of a softmax before it is divided by the sum. Equal infinities would subtract to NaN; where none is
// above minus infinity, all parts are 0.
MOERT_DEVICE double softmax_part(double x, double top) {
  return top == -kInfinity ? 0.0 : x == top ? 1.0 : exp(x - top);
}

template <int W>
MOERT_DEVICE void softmax(double* x, int n, int lane) {
  double top = -kInfinity;
  for (int e = lane; e < n; e += W) top = x[e] > top ? x[e] : top;
  top = max_of_lanes<W>(top);
  double sum = 0;
  for (int e = lane; e < n; e += W) {
    x[e] = softmax_part(x[e], top);
    sum += x[e];
  }
  sum = sum_of_lanes<W>(sum);
  if (sum == 0) return;
  for (int e = lane; e < n; e += W) x[e] /= sum;
}

constexpr uint64_t kDrawStep = 0x9e3779b97f4a7c15u;

// A step of splitmix64: every bit of the argument changes half of the result's.
MOERT_DEVICE uint64_t mix(uint64_t z) {
  z += kDrawStep;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Keys whose k largest are k draws without replacement. They follow from the bits of the row's logits, whose values
// mean nothing here. Bits are added, so that lanes may share them.
template <int W>
MOERT_DEVICE void draw_keys(const RouteArgs& args, const Logits& logits, const State& s, int lane) {
  const int n = args.rule.num_experts;
  uint64_t bits = 0;
  for (int e = lane; e < n; e += W) {
    const float logit = logits[e];
    uint32_t own = 0;
    memcpy(&own, &logit, sizeof own);
    bits += mix(static_cast<uint64_t>(e) << 32 | own);
  }
  const uint64_t start = mix(mix(args.rule.seed) ^ static_cast<uint64_t>(args.rule.layer_id));
  const uint64_t row = mix(start ^ sum_of_lanes<W>(bits));
  for (int e = lane; e < n; e += W) {
    // In (0, 1), neither end: 52 bits and a half are exact.
    const uint64_t drawn = mix(row + static_cast<uint64_t>(e) * kDrawStep) >> 12;
    const double u = (static_cast<double>(drawn) + 0.5) * 2.220446049250313e-16;
    s.key[e] = args.log_p[e] - log(-log(u));
    s.score[e] = 0;
  }
}

template <int W>
MOERT_DEVICE void score_experts(const RouteArgs& args, const Logits& logits, const State& s,
                                int lane) {
  const Rule& rule = args.rule;
  const int n = rule.num_experts;
  if (rule.method == Method::simulated) return draw_keys<W>(args, logits, s, lane);
  for (int e = lane; e < n; e += W) s.key[e] = s.score[e] = adjusted(rule, logits[e]);
  if (rule.scoring == Scoring::softmax) softmax<W>(s.score, n, lane);
  for (int e = lane; e < n; e += W) {
    if (rule.scoring == Scoring::sigmoid) s.score[e] = sigmoid(s.score[e]);
    if (rule.scoring == Scoring::sqrtsoftplus) s.score[e] = sqrtsoftplus(s.score[e]);
    const float logit = logits[e];
    // Every score rises with the logit, so without a bias the logits order the experts.
    double key = static_cast<double>(logit);
    if (rule.biased)
      key = (rule.bias_on_logits ? s.key[e] : s.score[e]) + static_cast<double>(args.bias[e]);
    // Infinities of either sign may meet in a biased one: that is no choice either.
    s.key[e] = logit != logit || is_nan(key) ? -kInfinity : key;
  }
}

// What margins compare. `key` is the expert's, from before it was chosen.
MOERT_DEVICE double selection(const RouteArgs& args, const Logits& logits, const State& s, int e,
                              double key) {
  if (args.rule.biased) return key;
  const float logit = logits[e];
  return logit != logit ? -kInfinity : s.score[e];
}

// Weight of `expert` by the sparsemixer: a softmax over the experts that are close enough to the largest logit.
// `removed` takes no part in it; -1: nobody is removed.
template <int W>
MOERT_DEVICE double sparsemixer_weight(const Rule& rule, const Logits& logits, int removed,
                                       int expert, int lane) {
  const int n = rule.num_experts;
  double top = -kInfinity;
  for (int e = lane; e < n; e += W) {
    const double x = adjusted(rule, logits[e]);
    if (e != removed && x > top) top = x;
  }
  top = max_of_lanes<W>(top);
  double sum = 0;
  double own = 0;
  for (int e = lane; e < n; e += W) {
    const double x = adjusted(rule, logits[e]);
    const double size = fabs(x) < top ? top : fabs(x);
    // 0 / 0 and what infinities make of it are NaN, which masks nobody.
    const bool masked = e == removed || (top - x) / size > 2 * rule.jitter_eps;
    const double part = masked ? 0.0 : softmax_part(x, top);
    sum += part;
    if (e == expert) own = part;
  }
  sum = sum_of_lanes<W>(sum);
  own = shuffle<W>(own, expert % W);
  return sum == 0 ? 0.0 : own / sum;
}

}  // namespace moert::gpu::router
