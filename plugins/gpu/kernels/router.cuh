// The rule of routing: a warp for each token, in f64. Formulas: docs/numerics.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fault.cuh"
#include "router_choice.cuh"

namespace moert::gpu::router {

enum class Given : uint8_t { none, all, absent };

// Whether a token has ids of its own accord. What is wrong is reported, and makes the token absent.
template <int W>
MOERT_DEVICE Given forced_ids(const RouteArgs& args, int64_t t, const State& s, int lane) {
  if (args.forced.data == nullptr) return Given::none;
  const int k = args.rule.top_k;
  bool present = false;
  for (int j = lane; j < k; j += W) {
    s.ids[j] = args.forced.data[t * args.forced.row_stride + j * args.forced.col_stride];
    present = present || s.ids[j] != -1;
  }
  sync_warp<W>();
  if (ballot<W>(present) == 0) return Given::none;
  bool wrong = false;
  for (int j = lane; j < k; j += W) {
    const int32_t id = s.ids[j];
    const bool outside = id < 0 || id >= args.rule.num_experts;
    bool repeated = false;
    for (int i = 0; i < j; ++i) repeated = repeated || s.ids[i] == id;
    if (!outside && !repeated) continue;
    report_fault(args.fault, outside ? FaultCode::forced_id : FaultCode::forced_repeat, t, id);
    wrong = true;
  }
  return ballot<W>(wrong) != 0 ? Given::absent : Given::all;
}

template <int W>
MOERT_DEVICE Given given_ids(const RouteArgs& args, int64_t t, const State& s, int lane) {
  if (args.rule.method != Method::hash) return forced_ids<W>(args, t, s, lane);
  const int64_t token = args.token_ids.data[t * args.token_ids.row_stride];
  if (token < -1 || token >= args.vocabulary) {
    if (lane == 0) report_fault(args.fault, FaultCode::token_id, t, token);
    return Given::absent;
  }
  const Given forced = forced_ids<W>(args, t, s, lane);
  if (forced != Given::none) return forced;
  if (token == -1) return Given::absent;
  const int k = args.rule.top_k;
  for (int j = lane; j < k; j += W) s.ids[j] = args.table[token * k + j];
  sync_warp<W>();
  return Given::all;
}

// In place. Sums go through the slots in order, by every lane alike.
template <int W>
MOERT_DEVICE void softmax_of_slots(double* weight, int k, int lane) {
  double top = -kInfinity;
  for (int j = 0; j < k; ++j) top = weight[j] > top ? weight[j] : top;
  sync_warp<W>();
  for (int j = lane; j < k; j += W) weight[j] = softmax_part(weight[j], top);
  sync_warp<W>();
  double sum = 0;
  for (int j = 0; j < k; ++j) sum += weight[j];
  sync_warp<W>();
  if (sum == 0) return;
  for (int j = lane; j < k; j += W) weight[j] /= sum;
  sync_warp<W>();
}

// Weights of s.ids before they are divided by their sum.
template <int W>
MOERT_DEVICE void plain_weights(const RouteArgs& args, const Logits& logits, const State& s,
                                int lane) {
  const Rule& rule = args.rule;
  const int k = rule.top_k;
  if (rule.method == Method::sparsemixer) {
    const double first = sparsemixer_weight<W>(rule, logits, -1, s.ids[0], lane);
    const double second = sparsemixer_weight<W>(rule, logits, s.ids[0], s.ids[1], lane);
    if (lane == 0) {
      s.weight[0] = first;
      s.weight[1] = second;
    }
  } else {
    const bool made_up = rule.method == Method::simulated;
    for (int j = lane; j < k; j += W) s.weight[j] = made_up ? 1.0 / k : s.score[s.ids[j]];
  }
  sync_warp<W>();
  if (rule.scoring == Scoring::softmax_topk && rule.method != Method::simulated)
    softmax_of_slots<W>(s.weight, k, lane);
}

template <int W>
MOERT_DEVICE void set_weights(const RouteArgs& args, const Logits& logits, const State& s,
                              int lane) {
  const Rule& rule = args.rule;
  plain_weights<W>(args, logits, s, lane);
  double sum = 1;
  if (rule.renormalize && rule.method != Method::simulated) {
    sum = rule.renormalize_eps;
    for (int j = 0; j < rule.top_k; ++j) sum += s.weight[j];
    sum = sum < rule.renormalize_floor ? rule.renormalize_floor : sum;
    sync_warp<W>();
  }
  for (int j = lane; j < rule.top_k; j += W) {
    double weight = sum == 0 ? 0.0 : s.weight[j] / sum;
    weight *= rule.routed_scale;
    if (args.expert_scale != nullptr) weight *= args.expert_scale[s.ids[j]];
    s.weight[j] = weight;
  }
  sync_warp<W>();
}

template <int W>
MOERT_DEVICE void write_row(const RouteArgs& args, int64_t t, const State& s, bool absent,
                            double margin, int lane) {
  for (int j = lane; j < args.rule.top_k; j += W) {
    args.ids.data[t * args.ids.row_stride + j * args.ids.col_stride] = absent ? -1 : s.ids[j];
    args.weights.data[t * args.weights.row_stride + j * args.weights.col_stride] =
        absent ? 0.0f : static_cast<float>(s.weight[j]);
  }
  if (lane == 0 && args.margins.data != nullptr)
    args.margins.data[t * args.margins.row_stride] = static_cast<float>(margin);
}

MOERT_DEVICE State state_of(const Rule& rule, int warp) {
  auto* numbers = reinterpret_cast<double*>(shared() + warp * route_state_bytes(rule));
  State s;
  s.key = numbers;
  s.score = s.key + rule.num_experts;
  s.group = s.score + rule.num_experts;
  s.slot_key = s.group + rule.num_groups;
  s.weight = s.slot_key + rule.top_k;
  s.ids = reinterpret_cast<int32_t*>(s.weight + rule.top_k);
  return s;
}

template <int W>
MOERT_KERNEL MOERT_BOUNDS(4 * W, 1) void route(int64_t first, RouteArgs args) {
  const int lane = thread() % W, warp = thread() / W;
  const int64_t t = (first + block_x()) * (threads() / W) + warp;
  if (t >= args.tokens) return;
  const State s = state_of(args.rule, warp);
  const Logits logits = {args.logits.data + t * args.logits.row_stride, args.logits.col_stride};

  const Given given = given_ids<W>(args, t, s, lane);
  if (given == Given::absent) return write_row<W>(args, t, s, true, kInfinity, lane);
  score_experts<W>(args, logits, s, lane);
  sync_warp<W>();
  const double margin = given == Given::none ? choose<W>(args, logits, s, lane)
                                             : margin_of_given<W>(args, logits, s, lane);
  set_weights<W>(args, logits, s, lane);
  write_row<W>(args, t, s, false, margin, lane);
}

}  // namespace moert::gpu::router
