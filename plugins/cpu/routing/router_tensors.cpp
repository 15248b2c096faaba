// The tensors that a router owns: which a rule needs, checked as they arrive.
// SPDX-License-Identifier: Apache-2.0
#include "router_tensors.hpp"

#include <cmath>
#include <string>

namespace moert::cpu {
namespace {

struct Entry {
  const char* name;
  uint32_t needed_by;  // flag of the rule; 0: always needed
};
// In the order of MOERT_ROUTER_*.
constexpr Entry kTensors[] = {{"gate weight", 0},
                              {"gate bias", MOERT_ROUTING_GATE_BIAS},
                              {"selection bias", MOERT_ROUTING_SELECTION_BIAS},
                              {"expert scale", MOERT_ROUTING_EXPERT_SCALE},
                              {"input scale", MOERT_ROUTING_INPUT_NORM},
                              {"token table", MOERT_ROUTING_NEEDS_TOKEN_IDS}};

}  // namespace

RouterTensors::RouterTensors(const moert_routing_t& routing)
    : flags(routing.flags),
      num_experts(routing.num_experts),
      hidden_size(routing.hidden_size),
      top_k(routing.top_k) {}

bool RouterTensors::needed(uint32_t which) const {
  return kTensors[which].needed_by == 0 || (flags & kTensors[which].needed_by) != 0;
}

void RouterTensors::load(uint32_t which, const moert_tensor_t& tensor) {
  if (which >= std::size(kTensors) || !needed(which))
    throw PluginError(MOERT_INVALID_ARGUMENT,
                      "tensor " + std::to_string(which) + " is not used by this rule of routing");
  const char* name = kTensors[which].name;
  if ((loaded_ & (1u << which)) != 0)
    throw PluginError(MOERT_ALREADY_EXISTS, "the " + std::string(name) + " was loaded before");
  switch (which) {
    case MOERT_ROUTER_GATE_WEIGHT: gate = numbers(tensor, name, num_experts, hidden_size); break;
    case MOERT_ROUTER_GATE_BIAS: gate_bias = numbers(tensor, name, 1, num_experts); break;
    case MOERT_ROUTER_SELECTION_BIAS: load_selection_bias(tensor, name); break;
    case MOERT_ROUTER_EXPERT_SCALE: load_expert_scale(tensor, name); break;
    case MOERT_ROUTER_INPUT_SCALE: input_scale = numbers(tensor, name, 1, hidden_size); break;
    default: load_token_table(tensor, name); break;
  }
  loaded_ |= 1u << which;
}

void RouterTensors::expect_complete() const {
  for (uint32_t which = 0; which < std::size(kTensors); ++which)
    if (needed(which) && (loaded_ & (1u << which)) == 0)
      throw PluginError(MOERT_FAILED_PRECONDITION,
                        "the " + std::string(kTensors[which].name) + " was never loaded");
}

std::vector<double> RouterTensors::numbers(const moert_tensor_t& tensor, const char* name,
                                           int64_t rows, int64_t cols) const {
  const Matrix source = matrix(&tensor, name, kFloats, rows, cols, MOERT_DATA_LOSS);
  std::vector<double> values(static_cast<size_t>(rows * cols));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      values[static_cast<size_t>(r * cols + c)] = source.number(r, c);
  return values;
}

void RouterTensors::load_selection_bias(const moert_tensor_t& tensor, const char* name) {
  // f64 is refused: f32 could not keep it as it is.
  const Matrix bias = matrix(&tensor, name, {MOERT_DTYPE_F32, MOERT_DTYPE_BF16, MOERT_DTYPE_F16}, 1,
                             num_experts, MOERT_DATA_LOSS);
  std::vector<float> values(static_cast<size_t>(num_experts));
  for (int64_t e = 0; e < num_experts; ++e) {
    values[static_cast<size_t>(e)] = static_cast<float>(bias.number(0, e));
    if (std::isnan(values[static_cast<size_t>(e)]))
      throw PluginError(MOERT_DATA_LOSS, std::string(name) + " [" + std::to_string(e) + "] is NaN");
  }
  selection_bias = std::move(values);
}

void RouterTensors::load_expert_scale(const moert_tensor_t& tensor, const char* name) {
  std::vector<double> values = numbers(tensor, name, 1, num_experts);
  for (size_t e = 0; e < values.size(); ++e)
    if (!std::isfinite(values[e]))
      throw PluginError(MOERT_DATA_LOSS,
                        std::string(name) + " [" + std::to_string(e) + "] is not finite");
  expert_scale = std::move(values);
}

void RouterTensors::check_token(const Matrix& table, int64_t token) const {
  for (int64_t j = 0; j < top_k; ++j) {
    const int32_t id = table.integer(token, j);
    bool repeated = false;
    for (int64_t i = 0; i < j; ++i) repeated |= table.integer(token, i) == id;
    if (id < 0 || id >= num_experts || repeated)
      throw PluginError(MOERT_DATA_LOSS, "token table, row " + std::to_string(token) + ": expert " +
                                             std::to_string(id) + (repeated ? " again" : "") +
                                             ", expected distinct experts below " +
                                             std::to_string(num_experts));
  }
}

void RouterTensors::load_token_table(const moert_tensor_t& tensor, const char* name) {
  const Matrix table = matrix(&tensor, name, {MOERT_DTYPE_I32}, -1, top_k, MOERT_DATA_LOSS);
  std::vector<int32_t> values;
  for (int64_t token = 0; token < table.rows(); ++token) {
    check_token(table, token);
    for (int64_t j = 0; j < top_k; ++j) values.push_back(table.integer(token, j));
  }
  token_table = std::move(values);
}

}  // namespace moert::cpu
