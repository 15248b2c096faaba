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

// The scale tensor of a weight: [down, right] blocks of f32, bf16, f16, e8m0 or e4m3fn. Dimensions that are 1 by the
// kind of blocks, not by the weight's size, may be left out: [rows] for rows, [1] or [] for one scale.
class Scales {
 public:
  // Throws MOERT_DATA_LOSS for a scale that is missing, of another dtype or shape, outside its bytes, or
  // not a finite number. `scale` is borrowed, and called `name` in messages.
  // What is yet to be written may hold anything.
  enum State { written, to_be_written };
  Scales(const moert_tensor_t* scale, const Blocks& blocks, uint32_t dtype, int64_t weight_rows,
         int64_t weight_cols, State state = written, const char* name = "scale");

  // Of the element at [row, col] of the weight.
  float at(int64_t row, int64_t col) const {
    return of_block(blocks_.rows == 0 ? 0 : row / blocks_.rows,
                    blocks_.cols == 0 ? 0 : col / blocks_.cols);
  }
  float of_block(int64_t down, int64_t right) const;
  // `value` must be exact in the dtype.
  void set(int64_t down, int64_t right, float value) const;

 private:
  unsigned char* address(int64_t down, int64_t right) const;
  void expect_shape() const;
  void expect_finite() const;

  const moert_tensor_t* scale_;
  const char* name_;
  Blocks blocks_;
  int64_t down_, right_;
};

// One f32 that belongs to the whole weight, or to its input. Throws MOERT_DATA_LOSS unless it is there, and
// finite and above 0.
float positive_scalar(const moert_tensor_t* scalar, const char* name);

// Scales to encode with. A dtype has as many significant bits as make a product with a code exact in f32: 20 in
// f32, 8 in bf16, 11 in f16, 4 in e4m3fn, 1 in e8m0. Where f16 and e4m3fn are subnormal only their powers of two
// are used, so that a weight that was decoded is encoded again to the same numbers. 1 for 0; else at least
// 2^-100 or the dtype's least, at most its largest.
//
// `largest` is the largest code: its product with a scale is finite.
//
// The least one that is not below `value` >= 0: for codes that are floats, whose largest is then not passed.
float scale_not_below(double value, uint32_t dtype, double largest);
// The nearest one, or if only powers of two are used the least that is not below: for codes that stop at a number
// that is next to no other.
float scale_near(double value, uint32_t dtype, double largest);
// The nearest number of so many significant bits.
double rounded_to(double value, int bits);

}  // namespace moert::quant
