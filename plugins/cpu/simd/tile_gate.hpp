// The multiplication of f64 rows with a panel of a router's gate, for any Wide.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gate.hpp"

namespace moert::cpu::simd {
namespace {

// R rows from `row` on, C times eight experts from `column` on.
template <class W, bool Exact, int R, int C, class T>
void gate_tile(const GateProduct& p, const T* panel, int64_t row, int64_t column) {
  const double* x = p.rows + row * p.stride;
  double* out = p.sums + row * kGatePanel + column;
  W sum[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
      sum[r][c] = p.add ? W::load(out + r * kGatePanel + 8 * c) : W::zero();
  }
  const T* at = panel + column;
  for (int64_t d = 0; d < p.depth; ++d, at += kGatePanel) {
    W w[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) w[c] = W::load(at + 8 * c);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const W number = W::all(x[r * p.stride + d]);
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c)
        sum[r][c] = Exact ? W::fma(number, w[c], sum[r][c]) : sum[r][c] + number * w[c];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) sum[r][c].store(out + r * kGatePanel + 8 * c);
  }
}

template <class W, bool Exact, int R, class T>
void gate_rows(const GateProduct& p, const T* panel, int64_t row) {
  if constexpr (R == 1) {  // in the order in which the weights lie
    gate_tile<W, Exact, 1, 4>(p, panel, row, 0);
  } else if constexpr (R <= W::kRows) {
    for (int64_t column = 0; column < kGatePanel; column += 8 * W::kColumns)
      gate_tile<W, Exact, R, W::kColumns>(p, panel, row, column);
  }
}

// Cuts the rows into tiles of about the same height.
template <class W, bool Exact, class T>
void gate_tiles(const GateProduct& p, const T* panel) {
  static_assert(W::kRows <= 6);
  for (int64_t row = 0; row < p.count;) {
    const int64_t left = p.count - row;
    const int64_t tiles = (left + W::kRows - 1) / W::kRows;
    const int64_t height = (left + tiles - 1) / tiles;
    switch (height) {
      case 1: gate_rows<W, Exact, 1>(p, panel, row); break;
      case 2: gate_rows<W, Exact, 2>(p, panel, row); break;
      case 3: gate_rows<W, Exact, 3>(p, panel, row); break;
      case 4: gate_rows<W, Exact, 4>(p, panel, row); break;
      case 5: gate_rows<W, Exact, 5>(p, panel, row); break;
      default: gate_rows<W, Exact, 6>(p, panel, row); break;
    }
    row += height;
  }
}

template <class W>
void multiply_gate(const GateProduct& p) {
  if (p.exact) return gate_tiles<W, true>(p, p.singles);
  if (p.singles != nullptr) return gate_tiles<W, false>(p, p.singles);
  return gate_tiles<W, false>(p, p.doubles);
}

}  // namespace
}  // namespace moert::cpu::simd
