// moert.router/1 on a GPU: logits in f64 sums, and the whole rule of routing on the device.
// SPDX-License-Identifier: Apache-2.0
#include "router.hpp"

#include <algorithm>

#include "../dense/factors.hpp"
#include "../experts/arena.hpp"
#include "../prepare.hpp"
#include "../runtime.hpp"
#include "../tensors.hpp"
#include "simulated.hpp"

namespace moert::gpu {
namespace {

std::string sizes_refusal(const moert_routing_t& r) {
  if (!is_row_float(r.activation_dtype))
    return "hidden rows of type " + std::string(dtype_name(r.activation_dtype)) +
           ", only f32, bf16, f16";
  if (r.hidden_size < 1) return "hidden_size " + std::to_string(r.hidden_size) + ": at least 1";
  if (r.max_tokens < 0) return "max_tokens " + std::to_string(r.max_tokens) + " is negative";
  int64_t size = 0;
  if (!product({r.num_experts, whole_runs(std::min(r.hidden_size, INT64_MAX - kRun)), 8}, &size) ||
      !product({r.max_tokens, std::max(r.num_experts, r.hidden_size), 8}, &size))
    return "the sizes do not fit 64 bits";
  return {};
}

// Why this rule is not followed here; empty if it is.
std::string refusal(const moert_routing_t& r, Rule* rule) {
  if (std::string reason = device_refusal(r.device); !reason.empty()) return reason;
  if (std::string reason = read_rule(r, rule); !reason.empty()) return reason;
  if (std::string reason = sizes_refusal(r); !reason.empty()) return reason;
  const auto shared = static_cast<int64_t>(remembered_facts(r.device.ordinal).shared_bytes);
  if (route_state_bytes(*rule) > shared)
    return std::to_string(r.num_experts) + " experts need " +
           std::to_string(route_state_bytes(*rule)) + " bytes of shared memory, the device has " +
           std::to_string(shared);
  return {};
}

Rule accepted(const moert_routing_t& routing) {
  Rule rule;
  if (const std::string reason = refusal(routing, &rule); !reason.empty())
    throw PluginError(MOERT_UNIMPLEMENTED, reason);
  return rule;
}

struct Memory {
  double* factors;  // [T], with an input norm
  uint64_t bytes;
};
Memory carve(void* workspace, int64_t tokens, bool normed) {
  Arena arena(workspace);
  Memory memory{};
  if (normed) memory.factors = arena.take<double>(tokens);
  memory.bytes = arena.used();
  return memory;
}

}  // namespace

Support GpuRouter::supports(const Host&, const moert_routing_t& routing) {
  Rule rule;
  if (const std::string reason = refusal(routing, &rule); !reason.empty())
    return Support::no(reason);
  Support answer = Support::yes(MOERT_SUPPORT_DETERMINISTIC | MOERT_SUPPORT_GRAPH_SAFE);
  answer.persistent_bytes =
      static_cast<uint64_t>(routing.num_experts * whole_runs(routing.hidden_size)) * sizeof(float);
  return answer;
}

GpuRouter::GpuRouter(const Host&, const moert_routing_t& routing, const Options& options)
    : rule_(accepted(routing)),
      device_(routing.device),
      activation_dtype_(routing.activation_dtype),
      hidden_size_(routing.hidden_size),
      max_tokens_(routing.max_tokens),
      normed_((routing.flags & MOERT_ROUTING_INPUT_NORM) != 0),
      warp_(remembered_facts(routing.device.ordinal).warp),
      shared_bytes_(remembered_facts(routing.device.ordinal).shared_bytes),
      tensors_(routing, rule_),
      fault_(prepare_device(routing.device.ordinal)) {
  options.allow({});
  if (rule_.method == Method::simulated)
    log_p_ =
        DeviceMemory(device_.ordinal, log_probabilities(rule_), "probabilities of made-up routing");
}

void GpuRouter::load(uint32_t which, const moert_tensor_t& tensor) {
  if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "load after finish");
  tensors_.load(which, tensor);
}

void GpuRouter::finish() {
  if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "finish was called before");
  tensors_.expect_complete();
  finished_ = true;
}

uint64_t GpuRouter::workspace(int64_t tokens) { return carve(nullptr, tokens, normed_).bytes; }

Stream GpuRouter::ready_stream(const moert_router_args_t& args) const {
  if (!finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "a call before finish");
  must_understand(args.flags, 0, "router_args");
  return native_stream(args.stream, device_);
}

void GpuRouter::expect_tokens(int64_t tokens) const {
  if (tokens > max_tokens_)
    throw PluginError(
        MOERT_INVALID_ARGUMENT,
        std::to_string(tokens) + " tokens, but max_tokens is " + std::to_string(max_tokens_));
}

void GpuRouter::logits(const moert_router_args_t& args) {
  Stream stream = ready_stream(args);
  const Matrix hidden =
      matrix(args.hidden, "hidden", {activation_dtype_}, -1, hidden_size_, device_);
  expect_tokens(hidden.rows);
  const Matrix out =
      matrix(args.logits, "logits", {MOERT_DTYPE_F32}, hidden.rows, rule_.num_experts, device_);
  const Memory memory = carve(args.workspace, hidden.rows, normed_);
  expect_workspace(args.workspace, args.workspace_bytes, memory.bytes);

  const CurrentDevice current(device_.ordinal);
  LogitsArgs work;
  work.rows = float_rows(hidden);
  work.gate = tensors_.gate();
  work.bias = tensors_.gate_bias();
  work.logits = strided<float>(out);
  if (normed_) {
    launch_row_factors(warp_, stream,
                       {work.rows, rule_.input_norm_eps, rule_.input_gain, memory.factors});
    work.norm = {memory.factors, tensors_.input_scale()};
  }
  launch_logits(warp_, stream, work);
}

RouteArgs GpuRouter::route_args(const moert_router_args_t& args) const {
  const int64_t k = rule_.top_k;
  const Matrix logits =
      matrix(args.logits, "logits", {MOERT_DTYPE_F32}, -1, rule_.num_experts, device_);
  const int64_t tokens = logits.rows;
  expect_tokens(tokens);
  RouteArgs work;
  work.rule = rule_;
  work.tokens = tokens;
  work.logits = strided<const float>(logits);
  work.ids = strided<int32_t>(matrix(args.ids, "ids", {MOERT_DTYPE_I32}, tokens, k, device_));
  work.weights =
      strided<float>(matrix(args.weights, "weights", {MOERT_DTYPE_F32}, tokens, k, device_));
  if (args.margins != nullptr)
    work.margins =
        column<float>(matrix(args.margins, "margins", {MOERT_DTYPE_F32}, 1, tokens, device_));
  if (args.forced_ids != nullptr)
    work.forced = strided<const int32_t>(
        matrix(args.forced_ids, "forced ids", {MOERT_DTYPE_I32}, tokens, k, device_));
  if (rule_.method == Method::hash)
    work.token_ids = column<const int64_t>(
        matrix(args.token_ids, "token ids", {MOERT_DTYPE_I64}, 1, tokens, device_));
  return work;
}

void GpuRouter::route(const moert_router_args_t& args) {
  Stream stream = ready_stream(args);
  RouteArgs work = route_args(args);
  expect_workspace(args.workspace, args.workspace_bytes, workspace(work.tokens));
  work.table = tensors_.token_table();
  work.vocabulary = tensors_.vocabulary();
  work.bias = tensors_.selection_bias();
  work.expert_scale = tensors_.expert_scale();
  work.log_p = log_p_.data<double>();
  work.fault = fault_;
  const CurrentDevice current(device_.ordinal);
  launch_route(warp_, shared_bytes_, stream, work);
}

}  // namespace moert::gpu
