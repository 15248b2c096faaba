// The packed weights of a layer's experts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/adapter.hpp>
#include <moert/sdk/weight.hpp>
#include <vector>

#include "layout.hpp"
#include "pieces.hpp"
#include "scheme.hpp"

namespace moert::cpu::simd {

class PackedWeights {
 public:
  // Whether rows are quantised before a weight reads them: never, always in the same way, or as each weight says.
  enum class RowsAre { plain, quantised, by_weight };
  // Reserves the memory, in large pages where the system has them.
  PackedWeights(const Host& host, const MlpShape& shape, const WeightScheme& scheme, RowsAre rows,
                int64_t experts);

  // Packs one tensor straight from the view. Different experts may be loaded at the same time.
  void load(const moert_piece_t& piece);
  // Throws MOERT_FAILED_PRECONDITION: the first tensor that never came; MOERT_UNIMPLEMENTED where rows would have to
  // be quantised by several methods.
  void expect_complete() const;

  const Layout& layout() const { return layout_; }
  int64_t experts() const { return experts_; }
  const unsigned char* of(int64_t expert) const { return data_.get() + expert * layout_.bytes; }

  // What becomes of rows before that weight reads them.
  const RowQuant& row_quant(int64_t expert, uint32_t part) const {
    return row_quants_[static_cast<size_t>(expert) * kParts + part];
  }
  RowsAre rows_are() const { return rows_are_; }

  // An expert as one run of bytes, for any layer of the same sizes and storage.
  uint64_t bundle_bytes() const { return static_cast<uint64_t>(layout_.bytes); }
  void read(int64_t expert, void* bundle) const;
  void write(int64_t expert, const void* bundle);

 private:
  static constexpr size_t kParts = 3;
  unsigned char* of(int64_t expert) { return data_.get() + expert * layout_.bytes; }
  void load_bias(const moert_piece_t& piece, const std::string& what);
  void load_weight(const moert_piece_t& piece, const std::string& what);
  // Rows of a matrix [rows, cols] become columns of panels: row n column `first` + n % `width` of panel n / `width`.
  struct Place {
    int64_t rows, cols, first, width;
    unsigned char* panels;
  };
  void put(const moert_piece_t& piece, const std::string& what, const Place& to) const;

  WeightScheme scheme_;
  Layout layout_;
  int64_t experts_;
  Host::Array<unsigned char> data_;
  Pieces pieces_;
  RowsAre rows_are_;
  std::vector<RowQuant> row_quants_;  // [experts][parts]
};

}  // namespace moert::cpu::simd
