// A weight as it arrives, read panel by panel in the format that the device keeps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/problem.h>

#include <moert/sdk/weight.hpp>
#include <optional>
#include <string>
#include <vector>

#include "../runtime.hpp"
#include "formats.hpp"

namespace moert::gpu {

// Borrows the piece and `title`. Throws MOERT_DATA_LOSS for another dtype or shape than expected, for scales that are
// missing or NaN, and what the quant method reports.
class WeightSource {
 public:
  WeightSource(const moert_piece_t& piece, const std::string& title, const WeightFormat& format,
               int64_t rows, int64_t cols);

  // Bytes of a number as read_rows writes it: codes of four bits are one byte each.
  int64_t number_bytes() const { return number_bytes_; }
  // Rows [row, row + 16) with `padded_cols` numbers each; zeros for what the weight does not have.
  void read_rows(int64_t row, int64_t padded_cols, unsigned char* out) const;
  // Their scales as ScaleKind says; 0 for what the weight does not have.
  void read_scales(int64_t row, int64_t blocks, LayoutId layout, unsigned char* out) const;

 private:
  void read_row(int64_t row, unsigned char* out) const;
  void expect_stored() const;
  // The scale of a row's block of columns, with the second scale.
  float scale(int64_t row, int64_t block) const;
  uint8_t power(int64_t row, int64_t block) const;
  int64_t scale_index(int64_t row, int64_t block) const;
  float second_scale() const;

  const moert_piece_t& piece_;
  const std::string& title_;
  WeightFormat format_;
  int64_t rows_, cols_, number_bytes_;
  std::optional<WeightDecoder> decoder_;
  float factor_ = 1;
};

// A bias of `rows` numbers as f32, with zeros up to `padded`. Throws MOERT_DATA_LOSS for another shape or dtype.
std::vector<float> bias_numbers(const moert_piece_t& piece, const std::string& title, int64_t rows,
                                int64_t padded);

}  // namespace moert::gpu
