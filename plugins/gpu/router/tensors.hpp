// The tensors that a router owns: which a rule needs, checked as they arrive, kept on the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/router.h>

#include "../dense/numbers.hpp"
#include "../device_memory.hpp"
#include "rule.hpp"

namespace moert::gpu {

class RouterTensors {
 public:
  // `rule` was read from `routing`.
  RouterTensors(const moert_routing_t& routing, const Rule& rule);

  // A call that throws leaves the tensor unloaded.
  void load(uint32_t which, const moert_tensor_t& tensor);
  // Throws MOERT_FAILED_PRECONDITION: the first tensor that never came.
  void expect_complete() const;

  const DenseMatrix& gate() const { return gate_; }
  // NULL where the rule has none.
  const double* gate_bias() const { return gate_bias_.data<double>(); }
  const float* selection_bias() const { return selection_bias_.data<float>(); }
  const double* expert_scale() const { return expert_scale_.data<double>(); }
  const double* input_scale() const { return input_scale_.data<double>(); }  // whole runs
  const int32_t* token_table() const { return token_table_.data<int32_t>(); }
  int64_t vocabulary() const { return vocabulary_; }

 private:
  bool needed(uint32_t which) const;
  void load_gate(const moert_tensor_t& tensor, const char* name);
  DeviceMemory numbers(const moert_tensor_t& tensor, const char* name, int64_t count,
                       bool finite) const;
  void load_selection_bias(const moert_tensor_t& tensor, const char* name);
  void load_token_table(const moert_tensor_t& tensor, const char* name);
  void check_token(const Matrix& table, int64_t token) const;

  uint32_t flags_;
  int32_t ordinal_;
  int64_t num_experts_, hidden_size_, top_k_;
  uint32_t loaded_ = 0;  // bit MOERT_ROUTER_*
  DenseMatrix gate_;
  int64_t vocabulary_ = 0;
  DeviceMemory gate_numbers_, gate_bias_, selection_bias_, expert_scale_, input_scale_,
      token_table_;
};

}  // namespace moert::gpu
