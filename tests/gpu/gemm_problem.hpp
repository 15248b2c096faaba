// A case of the matrix kernels, and its numbers: packed as kernels read them, and as f64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <random>
#include <vector>

#include "gpu/device_array.hpp"
#include "gpu/experts/gemm.hpp"
#include "gpu/experts/pack.hpp"

namespace moert::gpu {

struct GemmCase {
  const char* label;
  Codec codec;
  ScaleKind scales = ScaleKind::none;
  int64_t scale_chunks = 0;  // chunks of a block of K, 0: all
  int64_t group = -1;        // of rows' scales; 0: a whole row; -1: plain rows
  bool gated = false, bends = false, bias = false;
  int64_t rows = 48, cols = 96;              // of one half; `rows` in whole panels
  std::vector<int64_t> counts = {3, 0, 17};  // rows of each expert
  bool mx_rows = false;                      // codes of e4m3fn, and scales that are powers of two
};

// One case's numbers: what is packed, and the same numbers as f64.
class GemmProblem {
 public:
  GemmProblem(const GemmCase& c, LayoutId layout);

  // What position p has in output row r; `size` is the sum of the magnitudes that were added.
  double want(int64_t p, int64_t r, double* size) const;
  GemmArgs args(Tiling tiling);
  int64_t positions() const { return positions_; }
  int64_t most_items(Tiling tiling) const {
    return max_items(positions_, experts(), item_rows(layout_, tiling));
  }
  std::vector<float> out() const { return out_.download(); }

 private:
  double uniform() { return std::uniform_real_distribution<double>(-1, 1)(random_); }
  int64_t padded() const;
  int64_t experts() const { return static_cast<int64_t>(c_.counts.size()); }
  double& weight(int64_t e, int64_t half, int64_t r, int64_t k) {
    return weights_[static_cast<size_t>(((e * halves_ + half) * c_.rows + r) * padded() + k)];
  }
  double weight(int64_t e, int64_t half, int64_t r, int64_t k) const {
    return weights_[static_cast<size_t>(((e * halves_ + half) * c_.rows + r) * padded() + k)];
  }
  void make_weights();
  void make_panel(int64_t e, int64_t panel);
  double random_code(unsigned char* to);
  void make_rows();
  int64_t expert_of(int64_t position) const;

  const GemmCase& c_;
  LayoutId layout_;
  UnitShape unit_;
  std::mt19937_64 random_;
  int64_t chunks_ = 0, blocks_ = 0, halves_ = 1, panels_ = 0, positions_ = 0;
  std::vector<double> weights_, rows_;
  DeviceArray<unsigned char> codes_, scales_, row_data_;
  DeviceArray<float> bias_, row_scales_;
  DeviceArray<Item> items_;
  DeviceArray<int32_t> n_items_;
  DeviceArray<float> out_;
};

}  // namespace moert::gpu
