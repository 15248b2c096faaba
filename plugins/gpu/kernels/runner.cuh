// What a runner does around its parts: slots, rows into the experts' space, and back out of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runner/stages.hpp"
#include "floats.cuh"

namespace moert::gpu::runner {

constexpr int kThreads = 256;

MOERT_DEVICE bool is_padded(const Strided<const uint8_t>& valid, int64_t t) {
  return valid.data != nullptr && valid.data[t * valid.row_stride] == 0;
}

// A thread for each token.
MOERT_KERNEL MOERT_BOUNDS(kThreads, 1) void router_rows(int64_t first, RouterRowsArgs args) {
  const int64_t t = (first + block_x()) * threads() + thread();
  if (t >= args.tokens) return;
  const bool padded = is_padded(args.valid, t);
  const auto& forced = args.forced;
  for (int j = 0; forced.data != nullptr && j < args.top_k; ++j)
    args.forced_to[t * args.top_k + j] =
        padded ? -1 : forced.data[t * forced.row_stride + j * forced.col_stride];
  if (args.token_ids.data != nullptr)
    args.token_ids_to[t] = padded ? -1 : args.token_ids.data[t * args.token_ids.row_stride];
}

// Copy number (t mod copies); -1 for zero experts and for experts that are not here.
MOERT_DEVICE int32_t local_id(const ExpertMapView& map, int64_t t, int32_t id) {
  if (id < 0 || id >= map.experts) return -1;
  const int64_t width = map.copies->width;
  const int32_t* copies = map.copies->ids + id * width;
  int64_t held = 0;
  while (held < width && copies[held] >= 0) ++held;
  return held == 0 ? -1 : copies[t % held];
}

// A thread for each token: padded rows lose their ids, so that every later stage leaves them alone; the others are
// counted.
MOERT_KERNEL MOERT_BOUNDS(kThreads, 1) void slots(int64_t first, SlotsArgs args) {
  const int64_t t = (first + block_x()) * threads() + thread();
  if (t >= args.tokens) return;
  const bool padded = is_padded(args.valid, t);
  double zero = 0;
  for (int j = 0; j < args.top_k; ++j) {
    int32_t& id = args.ids.data[t * args.ids.row_stride + j * args.ids.col_stride];
    float& weight = args.weights.data[t * args.weights.row_stride + j * args.weights.col_stride];
    if (padded) {
      id = -1;
      weight = 0;
    }
    if (id >= 0 && id < args.map.ids) atomic_add(args.counts + id, uint64_t{1});
    if (id >= args.map.experts) zero += args.zero_scale * static_cast<double>(weight);
    if (args.local_ids != nullptr) args.local_ids[t * args.top_k + j] = local_id(args.map, t, id);
  }
  if (args.zero_weights != nullptr) args.zero_weights[t] = zero;
}

MOERT_DEVICE double normed(const FloatRows& rows, const RowNorm& norm, int64_t t, int64_t c) {
  const double x = floats::number(rows, t, c);
  return norm.factors != nullptr ? x * (norm.factors[t] * norm.weights[c]) : x;
}

// What the dense product hands its sums to.
struct ToRows {
  FloatRows to;
  MOERT_DEVICE void operator()(int64_t t, int64_t c, double sum) const {
    floats::set_number(to, t, c, sum);
  }
};
struct ToOutput {
  OutputArgs args;
  MOERT_DEVICE void operator()(int64_t t, int64_t c, double sum) const {
    sum *= args.scale;
    if (args.bias != nullptr) sum += args.bias[c];
    if (args.shared != nullptr)
      sum += args.shared_scale * static_cast<double>(args.shared[t * args.out.cols + c]);
    // Not multiplied by 0 where no zero expert saw the row: 0 times infinity would be no number.
    const double zero = args.zero_weights != nullptr ? args.zero_weights[t] : 0;
    if (zero != 0) sum += zero * floats::number(args.hidden, t, c);
    floats::set_number(args.out, t, c, is_padded(args.valid, t) ? 0.0 : sum);
  }
};

// A thread for each number: finish(t, c, number).
template <class Finish>
MOERT_KERNEL MOERT_BOUNDS(kThreads, 1) void each_number(int64_t first, FloatRows rows, RowNorm norm,
                                                        Finish finish) {
  const int64_t at = (first + block_x()) * threads() + thread();
  if (at >= rows.tokens * rows.cols) return;
  const int64_t t = at / rows.cols, c = at % rows.cols;
  finish(t, c, normed(rows, norm, t, c));
}

}  // namespace moert::gpu::runner
