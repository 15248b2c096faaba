// The sum of a token's slots, and the sigmoid gate of shared experts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../experts/combine.hpp"
#include "numbers.cuh"

namespace moert::gpu {

// Block x is a token, block y eight columns for each of its threads.
template <Number N>
MOERT_KERNEL MOERT_BOUNDS(256, 1) void combine_slots(int64_t first_token, CombineArgs args) {
  const int64_t token = first_token + block_x();
  const int64_t first = (static_cast<int64_t>(block_y()) * threads() + thread()) * kEight;
  if (first >= args.cols) return;
  float sum[kEight] = {};
  for (int j = 0; j < args.top_k; ++j) {
    const int64_t slot = token * args.top_k + j;
    const int64_t place = args.places != nullptr ? args.places[slot] : slot;
    if (place < 0) continue;  // not "times zero": 0 * inf would be NaN
    const float weight =
        args.weights.data != nullptr
            ? args.weights.data[token * args.weights.row_stride + j * args.weights.col_stride]
            : 1.0f;
    const SourceRow<Number::f32> row = {args.rows + place * args.stride, args.cols, 1, true};
    float x[kEight];
    row.read(first, x);
    MOERT_UNROLL
    for (int i = 0; i < kEight; ++i) sum[i] = fma_f32(weight, x[i], sum[i]);
  }
  using Bits = typename Numbers<N>::Bits;
  const StridedRows& out = args.out;
  Bits* to = static_cast<Bits*>(out.data) + token * out.row_stride + first * out.col_stride;
  const bool aligned = out.col_stride == 1 && reinterpret_cast<uintptr_t>(to) % 16 == 0;
  write_numbers<N>(to, out.col_stride, aligned, args.cols - first, sum);
}

// One warp for a token. Every lane sums its columns in order, then lanes are added in pairs.
template <int W, Number N>
MOERT_KERNEL void sigmoid_gate(int64_t first, GateArgs args) {
  const int64_t token = (first + block_x()) * (threads() / W) + thread() / W;
  if (token >= args.tokens) return;
  const SourceRow<N> row = SourceRow<N>::of(args.rows, token, args.cols);
  double sum = 0;
  for (int64_t c = thread() % W * kEight; c < args.cols; c += W * kEight) {
    float x[kEight];
    row.read(c, x);
    MOERT_UNROLL
    for (int i = 0; i < kEight; ++i)
      if (c + i < args.cols) sum += args.gate[c + i] * static_cast<double>(x[i]);
  }
  MOERT_UNROLL
  for (int mask = W / 2; mask > 0; mask /= 2) sum += shuffle_xor<W>(sum, mask);
  if (thread() % W == 0) args.factors[token] = static_cast<float>(1.0 / (1.0 + exp(-sum)));
}

}  // namespace moert::gpu
