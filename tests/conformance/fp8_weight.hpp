// Eight-bit floats with scales by their definition, and weights of them: what quant methods are judged by.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/quant_method.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "buffer.hpp"
#include "numbers.hpp"

namespace moert::conformance {

// Fields of an eight-bit float beside its sign.
struct Fp8Element {
  const char* name;
  uint32_t dtype;
  int exponent_bits, bias;
  bool has_infinity, nan_is_negative_zero;
};
// The format that a scheme's name describes.
struct Fp8Format : Fp8Element {
  uint32_t scale_dtype = 0;
  int64_t block_rows = 0, block_cols = 0;  // 0: the whole dimension

  int fraction_bits() const { return 7 - exponent_bits; }
  double value(uint32_t code) const;
  double largest() const { return value(has_infinity ? 0x7b : nan_is_negative_zero ? 0x7f : 0x7e); }
  static int64_t blocks(int64_t size, int64_t block) {
    return block == 0 ? 1 : (size + block - 1) / block;
  }
  int64_t block_of(int64_t index, bool row) const {
    const int64_t block = row ? block_rows : block_cols;
    return block == 0 ? 0 : index / block;
  }
};

// Rows enough for two blocks and a part of one, if blocks are small; else a part of one block.
inline int64_t odd_size(int64_t block) {
  return block == 0 ? 21 : block <= 64 ? 2 * block + 3 : block + 5;
}

// Of "fp8_<element>.<blocks>.<scale>"; dtype or scale_dtype is 0 for a name that is none.
Fp8Format format_of(const std::string& scheme);

// A weight with its scales, and the numbers that it stands for.
class Fp8Weight {
 public:
  Fp8Weight(const Fp8Format& format, std::string scheme, int64_t row_count, int64_t col_count)
      : f(format),
        rows(row_count),
        cols(col_count),
        scheme_(std::move(scheme)),
        codes_(place_, f.dtype, {rows, cols}),
        scales_(place_, f.scale_dtype,
                {Fp8Format::blocks(rows, f.block_rows), Fp8Format::blocks(cols, f.block_cols)}) {
    quant.struct_size = sizeof quant;
    quant.scheme = scheme_.c_str();
    quant.layout = "canonical";
    quant.scale = scales_.get();
    codes_.view().set_quant(&quant);
  }
  // Every code, in an order of its own; scales of many sizes.
  void draw(Random& random);
  void set_codes(const Bytes& codes) { codes_.buffer().write(codes); }
  Bytes codes() { return codes_.read(); }
  Bytes scale_bytes() { return scales_.read(); }
  double scale(int64_t row, int64_t col);
  Tensor& tensor() { return codes_; }
  Tensor& scales() { return scales_; }
  void expect_guards() {
    codes_.buffer().expect_guards("the weight");
    scales_.buffer().expect_guards("the scale");
  }

  const Fp8Format f;
  const int64_t rows, cols;
  moert_quant_view_t quant{};

 private:
  std::string scheme_;
  Place place_{nullptr};
  Tensor codes_, scales_;
};

}  // namespace moert::conformance
