// How far two routings of the same tokens differ.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "capture/capture_file.hpp"

namespace moert::capture {

// The first place where they differ: the lowest layer, then the first row in order of comparing.
struct Divergence {
  int64_t layer_id = 0;
  RowKey token;
  std::vector<int32_t> ids, other_ids;
  std::optional<float> margin;  // of the first routing: a small one is a near tie
};

struct LayerDifference {
  int64_t layer_id = 0;
  int64_t rows = 0;       // compared: present in both
  int64_t only_one = 0;   // present in one of the two
  int64_t flipped = 0;    // rows whose sets of experts differ
  int64_t reordered = 0;  // the same set in another order of slots
  int64_t exchanged = 0;  // experts of the first that the second lacks, over all rows
  int64_t with_margin = 0,
          near_ties = 0;  // flipped rows whose margin is known and not below 0; of them near ties
  double jaccard = 0;     // sum over rows of |both| / |either|
};

struct Difference {
  std::vector<LayerDifference> layers;
  int64_t rows = 0;          // tokens compared in at least one layer
  int64_t rows_flipped = 0;  // of them, with a flip in some layer
  std::optional<Divergence> first;
  std::vector<int64_t> layers_alone;    // of one of the two files: not compared
  bool same() const { return !first; }  // ids alike, slot by slot, wherever both have them
  int64_t decisions_alone() const;      // present in one of the two
  // Alike, and there was something to compare, and nothing that could not be.
  bool proven() const {
    return same() && rows > 0 && layers_alone.empty() && decisions_alone() == 0;
  }
};

// Collects; feed it row by row, all layers of a row before the next row or all rows of a layer before the
// next layer.
class DifferenceCounter {
 public:
  DifferenceCounter(std::vector<CapturedLayer> layers, double near_tie = 1e-3);
  // Ids [k] of both; nullptr: absent there. `margin` nullptr: not known.
  void add(size_t layer, int64_t row, RowKey token, const int32_t* ids, const int32_t* other,
           const float* margin);
  Difference take();

 private:
  std::vector<CapturedLayer> layers_;
  double near_tie_;
  Difference result_;
  size_t first_layer_ = 0;
  int64_t first_row_ = 0;
  std::vector<uint8_t> seen_, flipped_;  // by row
  std::vector<int32_t> sorted_, other_sorted_;
};

// Layers that only one has are left out. Throws Error(input) if a common layer has another number of
// experts or k, or no layer is common.
Difference difference(const CaptureFile& a, const CaptureFile& b, double near_tie = 1e-3);

}  // namespace moert::capture
