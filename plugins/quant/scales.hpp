// Scales of a weight: one for each block of its elements.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/tensor.hpp>

namespace moert::quant {

// Blocks of a weight of [rows, cols]. 0 stands for the whole dimension; blocks at the end may be partial.
struct Blocks {
  int64_t rows = 0, cols = 0;

  static int64_t along(int64_t size, int64_t block) {
    if (block == 0) return 1;
    return size / block + (size % block != 0 ? 1 : 0);
  }
  int64_t down(int64_t weight_rows) const { return along(weight_rows, rows); }
  int64_t right(int64_t weight_cols) const { return along(weight_cols, cols); }
};

// The scale tensor of a weight: [down, right] blocks of f32, bf16, e8m0 or e4m3fn. Dimensions that are 1 by the
// kind of blocks, not by the weight's size, may be left out: [rows] for rows, [1] or [] for one scale.
class Scales {
 public:
  // Throws MOERT_DATA_LOSS for a scale that is missing, of another dtype or shape, outside its bytes, or
  // not a finite number. `scale` is borrowed.
  // What is yet to be written may hold anything.
  enum State { written, to_be_written };
  Scales(const moert_tensor_t* scale, const Blocks& blocks, uint32_t dtype, int64_t weight_rows,
         int64_t weight_cols, State state = written);

  // Of the element at [row, col] of the weight.
  float at(int64_t row, int64_t col) const {
    return of_block(blocks_.rows == 0 ? 0 : row / blocks_.rows,
                    blocks_.cols == 0 ? 0 : col / blocks_.cols);
  }
  float of_block(int64_t down, int64_t right) const;
  // `value` must be exact in the dtype, which is not e4m3fn.
  void set(int64_t down, int64_t right, float value) const;

 private:
  unsigned char* address(int64_t down, int64_t right) const;
  void expect_shape() const;
  void expect_finite() const;

  const moert_tensor_t* scale_;
  Blocks blocks_;
  int64_t down_, right_;
};

// The least number of the dtype, of at most 20 significant bits and not below 2^-100, that is not below
// `least` >= 0; 1 for 0. With so few bits the product with any 8-bit or 4-bit float is exact in f32, so
// that a weight that was decoded is encoded again to the same numbers.
float scale_not_below(double least, uint32_t dtype);

}  // namespace moert::quant
