// The tensors that a router owns: which a rule needs, checked as they arrive.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/router.h>

#include <vector>

#include "matrix.hpp"

namespace moert::cpu {

struct RouterTensors {
  explicit RouterTensors(const moert_routing_t& routing);

  // A call that throws leaves the tensor unloaded.
  void load(uint32_t which, const moert_tensor_t& tensor);
  // Throws MOERT_FAILED_PRECONDITION: the first tensor that never came.
  void expect_complete() const;

  int64_t vocabulary() const { return static_cast<int64_t>(token_table.size()) / top_k; }

  const uint32_t flags;  // of the rule
  const int64_t num_experts, hidden_size, top_k;
  // Empty if the rule has none. f64 holds every dtype that these may have.
  std::vector<double> gate;  // [E, H]
  std::vector<double> gate_bias;
  std::vector<float> selection_bias;
  std::vector<double> expert_scale, input_scale;
  std::vector<int32_t> token_table;  // [vocabulary, k]

 private:
  bool needed(uint32_t which) const;
  std::vector<double> numbers(const moert_tensor_t& tensor, const char* name, int64_t rows,
                              int64_t cols) const;
  void load_selection_bias(const moert_tensor_t& tensor, const char* name);
  void load_expert_scale(const moert_tensor_t& tensor, const char* name);
  void load_token_table(const moert_tensor_t& tensor, const char* name);
  void check_token(const Matrix& table, int64_t token) const;

  uint32_t loaded_ = 0;  // bit MOERT_ROUTER_*
};

}  // namespace moert::cpu
