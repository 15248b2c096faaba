// Rows times a small dense matrix in f64: logits of the gate, latent projections.
// SPDX-License-Identifier: Apache-2.0
//
// Every sum is made in one order, whatever the tile: thread i of a block adds runs i, i + kDenseThreads, ... of the
// columns; then lanes of a warp are added in pairs, and warps one after the other. So a row's numbers do not depend on
// the batch.
#pragma once

#include <cmath>

#include "floats.cuh"
#include "lanes.cuh"
#include "pieces.cuh"

namespace moert::gpu {

constexpr int kDenseThreads = 256;

// How a type of matrix is read.
struct Bf16Matrix {
  using Element = uint16_t;
  using Number = float;
  MOERT_DEVICE static void read(const Element* from, Number (&to)[kRun]) {
    floats::read_run(from, false, to);
  }
};
struct F16Matrix {
  using Element = uint16_t;
  using Number = float;
  MOERT_DEVICE static void read(const Element* from, Number (&to)[kRun]) {
    floats::read_run(from, true, to);
  }
};
struct F32Matrix {
  using Element = float;
  using Number = float;
  MOERT_DEVICE static void read(const Element* from, Number (&to)[kRun]) {
    floats::read_run(from, to);
  }
};
struct F64Matrix {
  using Element = double;
  using Number = double;
  MOERT_DEVICE static void read(const Element* from, Number (&to)[kRun]) {
    floats::read_run(from, to);
  }
};

// Block b: kTokens rows of the batch and kOut rows of the matrix. finish(t, r, sum) is called once for each of them.
template <int W, int kTokens, int kOut, class Matrix, class Finish>
MOERT_KERNEL MOERT_BOUNDS(kDenseThreads, 2) void dense(int64_t first, FloatRows rows, RowNorm norm,
                                                       DenseMatrix matrix, Finish finish) {
  const int64_t tiles = (matrix.rows + kOut - 1) / kOut;
  const int64_t block = first + block_x();
  const int64_t first_token = block / tiles * kTokens, first_row = block % tiles * kOut;
  const auto token = [&](int i) {  // those behind the end read the last row, and are not written
    return first_token + i < rows.tokens ? first_token + i : rows.tokens - 1;
  };

  double factors[kTokens];
  MOERT_UNROLL
  for (int t = 0; t < kTokens; ++t)
    factors[t] = norm.factors != nullptr ? norm.factors[token(t)] : 1.0;
  double sums[kTokens * kOut] = {};
  for (int64_t run = thread(); run < matrix.pitch / kRun; run += kDenseThreads) {
    typename Matrix::Number m[kOut][kRun];
    MOERT_UNROLL
    for (int r = 0; r < kOut; ++r) {
      const int64_t row = first_row + r < matrix.rows ? first_row + r : matrix.rows - 1;
      Matrix::read(static_cast<const typename Matrix::Element*>(matrix.data) + row * matrix.pitch +
                       run * kRun,
                   m[r]);
    }
    MOERT_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      float x[kRun];
      floats::read_run(rows, token(t), run, x);
      MOERT_UNROLL
      for (int i = 0; i < kRun; ++i) {
        auto number = static_cast<double>(x[i]);
        if (norm.weights != nullptr) number *= factors[t] * norm.weights[run * kRun + i];
        MOERT_UNROLL
        for (int r = 0; r < kOut; ++r)
          sums[t * kOut + r] = fma(static_cast<double>(m[r][i]), number, sums[t * kOut + r]);
      }
    }
  }

  const double sum = add_block<W, kTokens * kOut>(sums);
  const int64_t t = first_token + thread() / kOut, r = first_row + thread() % kOut;
  if (thread() < kTokens * kOut && t < rows.tokens && r < matrix.rows) finish(t, r, sum);
}

template <int W, int kTokens, int kOut, class Matrix, class Finish>
void launch_dense_tile(Stream stream, const FloatRows& rows, const RowNorm& norm,
                       const DenseMatrix& matrix, const Finish& finish) {
  const int64_t tiles = (matrix.rows + kOut - 1) / kOut;
  const int64_t blocks = (rows.tokens + kTokens - 1) / kTokens * tiles;
  launch_blocks<dense<W, kTokens, kOut, Matrix, Finish>>(
      {blocks}, kDenseThreads, add_block_bytes<W>(kDenseThreads, kTokens * kOut), stream, rows,
      norm, matrix, finish);
}

// Enqueues finish(t, r, sum of rows[t] x matrix[r]) for all t and r. Small batches want as many blocks as there are;
// large ones read the matrix less often. For rows of a type up to f32.
template <int W, class Matrix, class Finish>
void launch_dense(Stream stream, const FloatRows& rows, const RowNorm& norm,
                  const DenseMatrix& matrix, const Finish& finish) {
  // Four rows of f64 with their sums are more than a thread's registers.
  constexpr int kMostOut = sizeof(typename Matrix::Number) == 8 ? 2 : 4;
  if (rows.tokens == 0 || matrix.rows == 0) return;
  if (rows.tokens < 4)
    launch_dense_tile<W, 1, 1, Matrix>(stream, rows, norm, matrix, finish);
  else if (rows.tokens < 32)
    launch_dense_tile<W, 4, 1, Matrix>(stream, rows, norm, matrix, finish);
  else
    launch_dense_tile<W, 4, kMostOut, Matrix>(stream, rows, norm, matrix, finish);
}

}  // namespace moert::gpu
