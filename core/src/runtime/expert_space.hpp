// The space in which a layer's experts work, where it isn't that of the layer's rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <moert/abi/moe_runner.h>
#include <moert/sdk/host.hpp>
#include <moert/sdk/weight.hpp>

namespace moert::runtime {

// Projections and norm around the experts, in f64 from weights decoded to f32. Without any of them the
// rows are the layer's own and nothing is copied.
class ExpertSpace {
 public:
  // Of a layer whose flags were understood.
  ExpertSpace(const Host& host, const moert_moe_layer_t& layer);

  // Decodes one tensor; throws PluginError.
  void load(const moert_piece_t& piece);
  void expect_complete() const;  // throws MOERT_FAILED_PRECONDITION

  int64_t hidden_size() const { return hidden_; }  // of the layer's rows
  int64_t width() const { return width_; }         // of the experts' rows
  bool has_input() const { return (flags_ & (MOERT_LAYER_LATENT | MOERT_LAYER_NORM_IN)) != 0; }
  bool has_output() const { return flags_ != 0; }

  // Numbers of scratch that a worker needs for enter and leave.
  int64_t scratch() const { return hidden_ + width_ + std::max(hidden_, width_); }
  // Rows for the experts, [T, width], rounded once to their dtype. `scratch` is every worker's, one
  // after the other.
  void enter(const moert_tensor_t& rows, const moert_tensor_t& expert_rows, double* scratch) const;
  // One row [hidden] of what the experts gave together, [width], before the routed scale; then the
  // scale and the output bias.
  void leave(const float* given, double scale, double* scratch, double* row) const;

 private:
  struct Tensor {
    const char* name;
    uint32_t needed_by;  // flags
    int64_t rows, cols;  // rows 0: a vector
  };
  Tensor tensor(uint32_t part) const;
  void normalize(double* row) const;
  static void multiply(const std::vector<float>& matrix, const double* x, int64_t rows,
                       int64_t cols, double* y);

  Host host_;
  uint32_t flags_;
  int64_t hidden_, width_;
  double eps_;
  std::vector<float> down_, up_, norm_, bias_;
  RowQuant down_rows_, up_rows_;
};

}  // namespace moert::runtime
