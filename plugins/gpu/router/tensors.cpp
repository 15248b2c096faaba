// The tensors that a router owns: which a rule needs, checked as they arrive, kept on the device.
// SPDX-License-Identifier: Apache-2.0
#include "tensors.hpp"

#include <moert/sdk/tensor.hpp>

#include <cmath>
#include <cstring>

namespace moert::gpu {
namespace {

constexpr struct {
  const char* name;
  uint32_t needed_by;  // flag of the rule; 0: always needed
} kTensors[] = {{"gate weight", 0},
                {"gate bias", MOERT_ROUTING_GATE_BIAS},
                {"selection bias", MOERT_ROUTING_SELECTION_BIAS},
                {"expert scale", MOERT_ROUTING_EXPERT_SCALE},
                {"input scale", MOERT_ROUTING_INPUT_NORM},
                {"token table", MOERT_ROUTING_NEEDS_TOKEN_IDS}};

std::string element(const char* name, int64_t index) {
  return std::string(name) + " [" + std::to_string(index) + "]";
}

}  // namespace

RouterTensors::RouterTensors(const moert_routing_t& routing, const Rule& rule)
    : flags_(routing.flags),
      ordinal_(routing.device.ordinal),
      num_experts_(rule.num_experts),
      hidden_size_(routing.hidden_size),
      top_k_(rule.top_k) {}

bool RouterTensors::needed(uint32_t which) const {
  return kTensors[which].needed_by == 0 || (flags_ & kTensors[which].needed_by) != 0;
}

void RouterTensors::load(uint32_t which, const moert_tensor_t& tensor) {
  if (which >= std::size(kTensors) || !needed(which))
    throw PluginError(MOERT_INVALID_ARGUMENT,
                      "tensor " + std::to_string(which) + " is not used by this rule of routing");
  const char* name = kTensors[which].name;
  if ((loaded_ & (1u << which)) != 0)
    throw PluginError(MOERT_ALREADY_EXISTS, "the " + std::string(name) + " was loaded before");
  switch (which) {
    case MOERT_ROUTER_GATE_WEIGHT: load_gate(tensor, name); break;
    case MOERT_ROUTER_GATE_BIAS: gate_bias_ = numbers(tensor, name, num_experts_, false); break;
    case MOERT_ROUTER_SELECTION_BIAS: load_selection_bias(tensor, name); break;
    case MOERT_ROUTER_EXPERT_SCALE:
      expert_scale_ = numbers(tensor, name, num_experts_, true);
      break;
    case MOERT_ROUTER_INPUT_SCALE: input_scale_ = numbers(tensor, name, hidden_size_, false); break;
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

// In its own type, since that is what is read most.
void RouterTensors::load_gate(const moert_tensor_t& tensor, const char* name) {
  const Matrix source =
      matrix(&tensor, name, kFloats, num_experts_, hidden_size_, kCpu, MOERT_DATA_LOSS);
  const std::vector<unsigned char> rows = padded_rows(source);
  DeviceMemory kept(ordinal_, rows, name);
  gate_ = {kept.data<void>(), num_experts_, whole_runs(hidden_size_), float_rows(source).type};
  gate_numbers_ = std::move(kept);
}

DeviceMemory RouterTensors::numbers(const moert_tensor_t& tensor, const char* name, int64_t count,
                                    bool finite) const {
  const Matrix source = matrix(&tensor, name, kFloats, 1, count, kCpu, MOERT_DATA_LOSS);
  std::vector<double> values(static_cast<size_t>(whole_runs(count)));
  for (int64_t i = 0; i < count; ++i) {
    const double value = number(source, 0, i);
    if (finite && !std::isfinite(value))
      throw PluginError(MOERT_DATA_LOSS, element(name, i) + " is not finite");
    values[static_cast<size_t>(i)] = value;
  }
  return {ordinal_, values, name};
}

void RouterTensors::load_selection_bias(const moert_tensor_t& tensor, const char* name) {
  // f64 is refused: f32 could not keep it as it is.
  const Matrix source = matrix(&tensor, name, kRowFloats, 1, num_experts_, kCpu, MOERT_DATA_LOSS);
  std::vector<float> values(static_cast<size_t>(num_experts_));
  for (int64_t e = 0; e < num_experts_; ++e) {
    const double value = number(source, 0, e);
    if (std::isnan(value)) throw PluginError(MOERT_DATA_LOSS, element(name, e) + " is NaN");
    values[static_cast<size_t>(e)] = static_cast<float>(value);
  }
  selection_bias_ = DeviceMemory(ordinal_, values, name);
}

void RouterTensors::check_token(const Matrix& table, int64_t token) const {
  for (int64_t j = 0; j < top_k_; ++j) {
    const int32_t id = integer(table, token, j);
    bool repeated = false;
    for (int64_t i = 0; i < j; ++i) repeated |= integer(table, token, i) == id;
    if (id < 0 || id >= num_experts_ || repeated)
      throw PluginError(MOERT_DATA_LOSS, "token table, row " + std::to_string(token) + ": expert " +
                                             std::to_string(id) + (repeated ? " again" : "") +
                                             ", expected distinct experts below " +
                                             std::to_string(num_experts_));
  }
}

void RouterTensors::load_token_table(const moert_tensor_t& tensor, const char* name) {
  const Matrix table = matrix(&tensor, name, {MOERT_DTYPE_I32}, -1, top_k_, kCpu, MOERT_DATA_LOSS);
  std::vector<int32_t> values;
  values.reserve(static_cast<size_t>(table.rows * top_k_));
  for (int64_t token = 0; token < table.rows; ++token) {
    check_token(table, token);
    for (int64_t j = 0; j < top_k_; ++j) values.push_back(integer(table, token, j));
  }
  token_table_ = DeviceMemory(ordinal_, values, name);
  vocabulary_ = table.rows;
}

}  // namespace moert::gpu
