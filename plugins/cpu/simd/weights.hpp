// The packed weights of a layer's experts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/adapter.hpp>

#include "layout.hpp"
#include "pieces.hpp"

namespace moert::cpu::simd {

class PackedWeights {
 public:
  // Reserves the memory, in large pages where the system has them.
  PackedWeights(const Host& host, const Layout& layout, int64_t experts);

  // Packs one tensor straight from the view. Different experts may be loaded at the same time.
  void load(const moert_piece_t& piece);
  void expect_complete() const { pieces_.expect_complete(); }

  const Layout& layout() const { return layout_; }
  int64_t experts() const { return experts_; }
  const unsigned char* of(int64_t expert) const { return data_.get() + expert * layout_.bytes; }

  // An expert as one run of bytes, for any layer of the same sizes and storage.
  uint64_t bundle_bytes() const { return static_cast<uint64_t>(layout_.bytes); }
  void read(int64_t expert, void* bundle) const;
  void write(int64_t expert, const void* bundle);

 private:
  unsigned char* of(int64_t expert) { return data_.get() + expert * layout_.bytes; }
  void load_bias(const moert_piece_t& piece, const std::string& what);
  void load_weight(const moert_piece_t& piece, const std::string& what);

  Layout layout_;
  int64_t experts_;
  Host::Array<unsigned char> data_;
  Pieces pieces_;
};

}  // namespace moert::cpu::simd
