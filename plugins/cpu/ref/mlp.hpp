// One or more gated MLPs: their weights as f32, and one row through one of them in f64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <moert/sdk/adapter.hpp>
#include <moert/sdk/weight.hpp>
#include <string>
#include <vector>

#include "activation.hpp"
#include "mlp_shape.hpp"
#include "pieces.hpp"

namespace moert::cpu {

// Weights of several MLPs of one shape, decoded as they arrive, straight into their final place. One
// MLP is one run of numbers, so that it can be copied as a whole.
class MlpWeights {
 public:
  MlpWeights(const Host& host, const MlpShape& shape, int64_t count);

  // Decodes one tensor. Different experts may be loaded at the same time. A call that throws leaves
  // the piece unloaded. What the numbers mean is up to piece.quant; biases are plain floats.
  void load(const moert_piece_t& piece);
  // Throws MOERT_FAILED_PRECONDITION: the first tensor that never came.
  void expect_complete() const { pieces_.expect_complete(); }

  const MlpShape& shape() const { return shape_; }
  int64_t count() const { return count_; }
  int64_t floats() const { return floats_; }
  // What a bundle of one MLP holds: its numbers, then the static input scales of its weights, 0 where
  // there is none. Throws MOERT_UNIMPLEMENTED where MLPs quantise rows by different methods: one would
  // not work in another's place.
  uint64_t bundle_bytes() const;
  void read(int64_t mlp, void* bundle) const;
  void write(int64_t mlp, const void* bundle);
  const float* of(int64_t mlp) const { return data_.get() + mlp * floats_; }

  // Numbers of scratch that row() needs.
  int64_t scratch() const {
    return shape_.intermediate + std::max(3 * shape_.hidden, 2 * shape_.intermediate);
  }
  // emit(h, y[h]) for h = 0 .. H-1, where y = down(act(gate(x)) * up(x)). What a weight reads is quantised
  // first where its format asks for it.
  template <class Emit>
  void row(int64_t mlp, const Activation& act, const double* x, double* scratch, Emit&& emit) const;

 private:
  float* of(int64_t mlp) { return data_.get() + mlp * floats_; }
  static constexpr int kScales = 3;
  struct Place {
    int64_t first, rows, cols;
  };
  // Where a tensor lies inside one MLP; -1 as `first` if this shape does not have it.
  Place place(uint32_t part, uint32_t role) const;
  void hidden_row(int64_t mlp, const Activation& act, const double* x, double* mid,
                  double* spare) const;
  // What remains of a row before that weight: the row itself, or `to`, which has room for twice as many.
  const double* quantized(int64_t mlp, uint32_t part, const double* row, int64_t cols,
                          double* to) const;

  MlpShape shape_;
  int64_t count_, floats_;
  Host::Array<float> data_;
  std::vector<RowQuant> row_quants_;  // by part
  Pieces pieces_;
};

// a . x in f64, in order.
inline double dot(const float* a, const double* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * x[i];
  return sum;
}

template <class Emit>
void MlpWeights::row(int64_t mlp, const Activation& act, const double* x, double* scratch,
                     Emit&& emit) const {
  double* mid = scratch;
  double* spare = mid + shape_.intermediate;
  const float* weights = of(mlp);
  hidden_row(mlp, act, x, mid, spare);
  const double* read = quantized(mlp, MOERT_PART_DOWN, mid, shape_.intermediate, spare);
  const float* down = weights + place(MOERT_PART_DOWN, MOERT_ROLE_WEIGHT).first;
  const Place bias = place(MOERT_PART_DOWN, MOERT_ROLE_BIAS);
  for (int64_t h = 0; h < shape_.hidden; ++h) {
    double sum = dot(down + h * shape_.intermediate, read, shape_.intermediate);
    if (shape_.biased) sum += static_cast<double>(weights[bias.first + h]);
    emit(h, sum);
  }
}

}  // namespace moert::cpu
