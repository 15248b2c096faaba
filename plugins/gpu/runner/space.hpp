// The space in which a layer's experts work, where it isn't that of the layer's rows: tensors and stages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/moe_runner.h>

#include "../device_memory.hpp"
#include "../experts/arena.hpp"
#include "stages.hpp"

namespace moert::gpu {

// Projections and norm around the experts, in f64 from weights decoded to f32, which stay on the device. Without any of
// them the rows are the layer's own and nothing is copied.
class ExpertSpace {
 public:
  // Of a layer whose flags were understood.
  explicit ExpertSpace(const moert_moe_layer_t& layer);

  // Decodes one tensor. Throws PluginError: MOERT_UNIMPLEMENTED where the weight's rows must be quantised.
  void load(const moert_piece_t& piece);
  void expect_complete() const;  // throws MOERT_FAILED_PRECONDITION

  int64_t hidden_size() const { return hidden_; }  // of the layer's rows
  int64_t width() const { return width_; }         // of the experts' rows
  bool has_input() const { return has(MOERT_LAYER_LATENT | MOERT_LAYER_NORM_IN); }

  // Parts of the workspace.
  struct Memory {
    double* inner = nullptr;    // [tokens, width], of latent rows that are normed
    double* factors = nullptr;  // [tokens], of a norm
  };
  Memory carve(Arena& arena, int64_t tokens) const;

  // Rows for the experts, [tokens, width], rounded once to their type.
  void enter(int warp, void* stream, const Memory& memory, const FloatRows& rows,
             const FloatRows& expert_rows) const;
  // What the experts gave together, f32 [tokens, width], becomes the layer's output. `args` lacks the bias.
  void leave(int warp, void* stream, const Memory& memory, const FloatRows& given,
             OutputArgs args) const;

 private:
  struct Tensor {
    const char* name;
    uint32_t needed_by;  // flags
    int64_t rows, cols;  // rows 0: a vector
  };
  static constexpr uint32_t kParts = 4;
  bool has(uint32_t flags) const { return (flags_ & flags) != 0; }
  Tensor tensor(uint32_t part) const;
  DeviceMemory& array(uint32_t part) { return arrays_[part - MOERT_PART_LATENT_DOWN]; }
  const DeviceMemory& array(uint32_t part) const { return arrays_[part - MOERT_PART_LATENT_DOWN]; }
  DenseMatrix matrix_of(uint32_t part) const;
  void load_vector(const moert_piece_t& piece, const Tensor& wanted);
  void load_matrix(const moert_piece_t& piece, const Tensor& wanted);

  uint32_t flags_;
  int32_t ordinal_;
  int64_t hidden_, width_;
  double eps_;
  DeviceMemory arrays_[kParts];  // matrices f32, vectors f64; both in whole runs
};

}  // namespace moert::gpu
