// What every implementation of moert.routed_experts/1 here refuses, and how it checks its arguments.
// SPDX-License-Identifier: Apache-2.0
#include "experts_rules.hpp"

#include <algorithm>

#include "activation.hpp"

namespace moert::cpu {
namespace {

constexpr uint32_t kKnownFlags = MOERT_PROBLEM_NON_GATED | MOERT_PROBLEM_BIAS |
                                 MOERT_PROBLEM_WEIGHT_ON_INPUT | MOERT_PROBLEM_LORA |
                                 MOERT_PROBLEM_BUNDLES | MOERT_PROBLEM_GRAPH;

std::string number(const char* name, int64_t value) {
  return std::string(name) + " " + std::to_string(value);
}

std::string refuse_sizes(const moert_moe_problem_t& p) {
  const std::pair<const char*, int64_t> sizes[] = {{"hidden_size", p.hidden_size},
                                                   {"intermediate_size", p.intermediate_size},
                                                   {"num_experts", p.num_experts},
                                                   {"num_local_experts", p.num_local_experts},
                                                   {"top_k", p.top_k}};
  for (const auto& [name, value] : sizes)
    if (value < 1) return number(name, value) + ": must be at least 1";
  if (p.max_tokens < 0) return number("max_tokens", p.max_tokens) + ": must not be negative";
  if (p.num_local_experts > INT32_MAX)
    return number("num_local_experts", p.num_local_experts) + ": ids are 32-bit numbers";
  int64_t floats = 0;
  int64_t bytes = 0;
  if (!shape_of(p).count(&floats) || !product({floats, 4, p.num_local_experts}, &bytes) ||
      !product({p.max_tokens, std::max(p.hidden_size, p.top_k), 8}, &bytes))
    return "the sizes do not fit 64 bits";
  return {};
}

std::string refuse_parallel(const moert_moe_problem_t& p) {
  if (p.tp_size != 1 || p.tp_rank != 0)
    return "tensor parallelism: " + number("tp_size", p.tp_size) + ", only 1";
  // Ids are local already, so expert parallelism is the caller's affair.
  if (p.ep_size < 1 || p.ep_rank < 0 || p.ep_rank >= p.ep_size)
    return number("ep_rank", p.ep_rank) + " is not in [0, ep_size " + std::to_string(p.ep_size) +
           ")";
  return {};
}

}  // namespace

MlpShape shape_of(const moert_moe_problem_t& p) {
  return {p.hidden_size, p.intermediate_size, (p.flags & MOERT_PROBLEM_NON_GATED) == 0,
          (p.flags & MOERT_PROBLEM_BIAS) != 0};
}

std::string experts_refusal(const moert_moe_problem_t& p) {
  if (p.device.kind != MOERT_DEVICE_CPU) return "the layer's device is not the cpu";
  if ((p.flags & ~kKnownFlags) != 0)
    return number("problem flag bits", p.flags & ~kKnownFlags) + " are not known";
  if ((p.flags & MOERT_PROBLEM_LORA) != 0 || p.lora_max_rank != 0 || p.lora_slots != 0)
    return "adapters (LoRA) are not supported";
  if ((p.flags & MOERT_PROBLEM_GRAPH) != 0) return "the cpu has no device graphs";
  for (uint32_t dtype : {p.activation_dtype, p.output_dtype})
    if (!is_float(dtype))
      return "rows of type " + std::string(dtype_name(dtype)) + ", only f32, bf16, f16, f64";
  if (std::string reason = refuse_sizes(p); !reason.empty()) return reason;
  if (std::string reason = refuse_parallel(p); !reason.empty()) return reason;
  return Activation::refusal(p.activation, (p.flags & MOERT_PROBLEM_NON_GATED) == 0);
}

ExpertsLimits::ExpertsLimits(const moert_moe_problem_t& p)
    : hidden(p.hidden_size),
      experts(p.num_local_experts),
      top_k(p.top_k),
      max_tokens(p.max_tokens),
      activation_dtype(p.activation_dtype),
      output_dtype(p.output_dtype) {}

ExpertsRows expect_rows(const moert_experts_args_t& args, const ExpertsLimits& limits) {
  must_understand(args.flags, 0, "arguments of forward");
  if (args.lora != nullptr)
    throw PluginError(MOERT_UNIMPLEMENTED, "adapters (LoRA) are not supported");
  const int64_t h = limits.hidden;
  const Matrix hidden = matrix(args.hidden, "hidden", {limits.activation_dtype}, -1, h);
  const int64_t tokens = hidden.rows();
  if (tokens > limits.max_tokens)
    throw PluginError(
        MOERT_INVALID_ARGUMENT,
        std::to_string(tokens) + " tokens, but max_tokens is " + std::to_string(limits.max_tokens));
  const ExpertsRows rows = {
      hidden, matrix(args.ids, "ids", {MOERT_DTYPE_I32}, tokens, limits.top_k),
      matrix(args.weights, "weights", {MOERT_DTYPE_F32}, tokens, limits.top_k),
      matrix(args.out, "out", {limits.output_dtype}, tokens, h)};
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t j = 0; j < limits.top_k; ++j) {
      const int32_t id = rows.ids.integer(t, j);
      if (id < -1 || id >= limits.experts)
        throw PluginError(MOERT_INVALID_ARGUMENT,
                          "ids[" + std::to_string(t) + ", " + std::to_string(j) + "] is " +
                              std::to_string(id) + ", expected -1 or an expert below " +
                              std::to_string(limits.experts));
    }
  }
  return rows;
}

void expect_bundle(int64_t expert, int64_t experts, const void* bundle, uint64_t bytes,
                   uint64_t expected) {
  if (expert < 0 || expert >= experts)
    throw PluginError(
        MOERT_INVALID_ARGUMENT,
        "expert " + std::to_string(expert) + " is not in [0, " + std::to_string(experts) + ")");
  if (bundle == nullptr || bytes != expected)
    throw PluginError(MOERT_INVALID_ARGUMENT, "a bundle of " + std::to_string(bytes) +
                                                  " bytes, expected " + std::to_string(expected));
}

}  // namespace moert::cpu
