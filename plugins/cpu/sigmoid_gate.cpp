// The sigmoid gate of shared experts.
// SPDX-License-Identifier: Apache-2.0
#include "sigmoid_gate.hpp"

#include <moert/abi/shared_experts.h>

#include <cmath>

#include "matrix.hpp"

namespace moert::cpu {

void SigmoidGate::load(const moert_piece_t& piece) {
  must_understand(piece.flags, 0, "piece");
  if (!exists_ || piece.role != MOERT_ROLE_WEIGHT || piece.expert != 0)
    throw PluginError(MOERT_INVALID_ARGUMENT, "the layer has no such sigmoid gate");
  if (!gate_.empty()) throw PluginError(MOERT_ALREADY_EXISTS, "the sigmoid gate was loaded before");
  const Matrix gate =
      matrix(piece.tensor, "the sigmoid gate", kFloats, 1, hidden_, MOERT_DATA_LOSS);
  std::vector<double> values(static_cast<size_t>(hidden_));
  gate.numbers(0, 0, hidden_, values.data());
  gate_ = std::move(values);
}

void SigmoidGate::expect_complete() const {
  if (exists_ && gate_.empty())
    throw PluginError(MOERT_FAILED_PRECONDITION, "the sigmoid gate was never loaded");
}

double SigmoidGate::factor(const double* x) const {
  if (!exists_) return 1.0;
  double sum = 0;
  for (int64_t c = 0; c < hidden_; ++c) sum += gate_[static_cast<size_t>(c)] * x[c];
  return 1.0 / (1.0 + std::exp(-sum));
}

}  // namespace moert::cpu
