// The sigmoid gate of shared experts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/adapter.hpp>
#include <vector>

namespace moert::cpu {

// What a token's shared output is multiplied by: 1 / (1 + exp(-gate . x)), or 1 in a layer without a gate.
class SigmoidGate {
 public:
  SigmoidGate(bool exists, int64_t hidden) : exists_(exists), hidden_(hidden) {}

  // Of a piece whose part is MOERT_PART_SIGMOID_GATE. A call that throws leaves it unloaded.
  void load(const moert_piece_t& piece);
  // Throws MOERT_FAILED_PRECONDITION if the layer has one that never came.
  void expect_complete() const;

  bool exists() const { return exists_; }
  // Of a row of H numbers; the sum is in order. Nothing is read where there is no gate.
  double factor(const double* x) const;

 private:
  bool exists_;
  int64_t hidden_;
  std::vector<double> gate_;  // [H]; empty until it is loaded
};

}  // namespace moert::cpu
