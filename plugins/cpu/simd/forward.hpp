// One forward: rows made ready, the first projection with the activation, the second with the sum of slots.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/host.hpp>
#include <optional>

#include "activation.hpp"
#include "batch.hpp"
#include "weights.hpp"

namespace moert::cpu::simd {

// How a layer is computed: follows from its problem and the instruction set, never from a batch.
struct Method {
  const Kernels* kernels = nullptr;
  // Rows and middle of bf16, multiplied in pairs; else of f32.
  bool pairs = false;
  // Rows and middle become codes, with their scales behind them; they are multiplied in pairs. Else rows that are
  // quantised stay f32, by the word of their quant method.
  std::optional<RowScheme> codes;
  bool weight_on_input = false;
  // Rows are quantised for each expert, those of gate and up each on their own.
  bool rows_by_expert = false;
  Bend bend;
  // Where the kernels do not have the curve: computed by the oracle's function.
  const Activation* exact = nullptr;

  // Bytes of a row or of the middle of so many numbers: as it is computed, and with what it becomes.
  int64_t number_bytes() const { return pairs && !codes ? 2 : 4; }
  int64_t scales_first(int64_t numbers) const { return (numbers * number_bytes() + 63) / 64 * 64; }
  int64_t row_bytes(int64_t numbers) const;
  int64_t rows_of_token(int64_t top_k) const {
    return rows_by_expert ? 2 * top_k : weight_on_input ? top_k : 1;
  }
};

class Forward {
 public:
  // All of it is borrowed.
  Forward(const Method& method, const PackedWeights& weights, const ExpertsRows& rows,
          Batch& batch);
  // One loop over the host's threads, which meet twice in it at most.
  void run(const Host& host);

 private:
  void convert_rows(int64_t task);
  void convert(int64_t index);
  const void* row_of(int64_t slot, bool of_up) const;
  void multiply_up(const Group& group, int64_t panel, bool of_up, const WorkerSpace& space,
                   float* sums);
  const float* scales_of(const void* row, int64_t numbers) const;
  void first_projection(int64_t task, const WorkerSpace& space);
  void second_projection(int64_t task, const WorkerSpace& space);
  void multiply(const unsigned char* panel, int64_t depth, int64_t rows, const WorkerSpace& space,
                float* sums);
  void quantise(const RowQuant& by, unsigned char* row, int64_t depth, int64_t numbers) const;
  void quantise_middle(int64_t group) const;
  void bend(int64_t rows, const float* bias, float* sums) const;
  // A panel of down for a block of tokens.
  struct DownTask {
    int64_t panel, first_slot;
    float* terms;  // [slots of the block][64]
  };
  void down(const Group& group, const DownTask& task, const WorkerSpace& space);
  void combine(int64_t token, const DownTask& task, const WorkerSpace& space);

  const Method& method_;
  const PackedWeights& weights_;
  const Layout& layout_;
  const ExpertsRows& rows_;
  Batch& batch_;
  const bool quantises_;
  const int64_t row_scale_step_;
  const bool converted_;
};

}  // namespace moert::cpu::simd
