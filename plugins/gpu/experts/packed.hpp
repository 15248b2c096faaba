// The weights of a layer's experts on the device, in the order in which warps read them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/problem.h>

#include <string>

#include "../runtime.hpp"
#include "formats.hpp"
#include "gemm.hpp"

namespace moert::gpu {

struct MlpSizes {
  int64_t hidden = 0, intermediate = 0;
  bool gated = true, biased = false;
};

// Sizes of one projection of one expert as packed.
struct ProjectionLayout {
  int64_t rows = 0, cols = 0;  // of one half, as stored
  int64_t halves = 1;          // 2: gate and up
  int64_t panels = 0;          // of all halves
  int64_t chunks = 0;
  int64_t codes = 0, scales = 0, bias = 0;  // bytes
  int64_t scale_blocks = 0, scale_chunks = 0;

  int64_t padded_cols() const { return chunks * 32; }
};

// `up` has `cols` hidden, and as many panels as the down projection's padded columns need; `down` the other way round.
struct PackedLayout {
  LayoutId layout = LayoutId::nv;
  WeightFormat format;
  ProjectionLayout up, down;

  // False where sizes do not fit 62 bits.
  static bool make(LayoutId layout, const WeightFormat& format, const MlpSizes& sizes,
                   PackedLayout* out);
  int64_t bytes_per_expert() const {
    return up.codes + up.scales + up.bias + down.codes + down.scales + down.bias;
  }
};

// Owns device memory of one device. Loading: one thread for an expert at a time, different experts at once. The rest:
// one thread.
class PackedMlps {
 public:
  // Reserves memory on the current device. Throws MOERT_RESOURCE_EXHAUSTED, with what it was needed for.
  PackedMlps(const PackedLayout& layout, const MlpSizes& sizes, int64_t experts);
  ~PackedMlps();
  PackedMlps(const PackedMlps&) = delete;
  PackedMlps& operator=(const PackedMlps&) = delete;

  // Packs a weight or bias whose shape was checked, and copies it; done when it returns. `title` is for messages
  // ("expert 3, gate weight"). Throws MOERT_DATA_LOSS for another dtype or scale than the format's, and what the quant
  // method reports.
  void load(const moert_piece_t& piece, const std::string& title);

  Projection up() const;
  Projection down() const;
  const PackedLayout& layout() const { return layout_; }

  // One expert's bytes, on the device: codes, scales and biases of up, then of down.
  uint64_t bundle_bytes() const { return static_cast<uint64_t>(layout_.bytes_per_expert()); }
  void read(int64_t expert, void* bundle, Stream stream) const;
  void write(int64_t expert, const void* bundle, Stream stream);

 private:
  // Where each run of an expert's bytes lies.
  struct Run {
    unsigned char* base;
    int64_t bytes;  // of one expert
  };
  struct Store {
    Run codes{}, scales{}, bias{};
  };
  Projection view(const ProjectionLayout& layout, const Store& store) const;
  void load_weight(const moert_piece_t& piece, const std::string& title);
  void load_bias(const moert_piece_t& piece, const std::string& title);

  PackedLayout layout_;
  MlpSizes sizes_;
  unsigned char* memory_ = nullptr;
  Store up_, down_;
};

}  // namespace moert::gpu
