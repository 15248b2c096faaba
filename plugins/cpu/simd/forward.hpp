// One forward: rows made ready, the first projection with the activation, the second with the sum of slots.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/host.hpp>

#include "activation.hpp"
#include "batch.hpp"
#include "weights.hpp"

namespace moert::cpu::simd {

// How a layer is computed: follows from its problem and the instruction set, never from a batch.
struct Method {
  const Kernels* kernels = nullptr;
  // Rows and middle of bf16, multiplied in pairs; else of f32.
  bool pairs = false;
  bool weight_on_input = false;
  Bend bend;
  // Where the kernels do not have the curve: computed by the oracle's function.
  const Activation* exact = nullptr;
};

class Forward {
 public:
  // All of it is borrowed.
  Forward(const Method& method, const PackedWeights& weights, const ExpertsRows& rows,
          Batch& batch);
  // Three loops over the host's threads at most.
  void run(const Host& host);

 private:
  template <class Task>
  void each_task(const Host& host, int64_t tasks, Task task);
  void convert(int64_t index);
  const void* row_of(int64_t slot) const;
  void first_projection(int64_t task, const WorkerSpace& space);
  void second_projection(int64_t task, const WorkerSpace& space);
  void multiply(const unsigned char* panel, int64_t depth, int64_t rows, const WorkerSpace& space);
  void bend(int64_t rows, const float* bias, float* sums) const;
  void down(const Group& group, int64_t panel, int64_t first_slot, const WorkerSpace& space);
  void combine(int64_t token, int64_t panel, int64_t first_slot, const WorkerSpace& space);

  const Method& method_;
  const PackedWeights& weights_;
  const Layout& layout_;
  const ExpertsRows& rows_;
  Batch& batch_;
  const bool converted_;
};

}  // namespace moert::cpu::simd
