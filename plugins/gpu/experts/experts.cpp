// "<word>.experts" of moert.routed_experts/1: experts on a GPU.
// SPDX-License-Identifier: Apache-2.0
#include "experts.hpp"

#include "../tensors.hpp"

namespace moert::gpu {
namespace {

constexpr uint32_t kKnownFlags = MOERT_PROBLEM_NON_GATED | MOERT_PROBLEM_BIAS |
                                 MOERT_PROBLEM_WEIGHT_ON_INPUT | MOERT_PROBLEM_LORA |
                                 MOERT_PROBLEM_BUNDLES | MOERT_PROBLEM_GRAPH;

std::string_view text(const char* word) { return word == nullptr ? "" : word; }

MlpProblem problem_of(const moert_moe_problem_t& p, GemmKernel gemm = GemmKernel::mma) {
  MlpProblem problem;
  problem.device = p.device;
  problem.sizes = {p.hidden_size, p.intermediate_size, (p.flags & MOERT_PROBLEM_NON_GATED) == 0,
                   (p.flags & MOERT_PROBLEM_BIAS) != 0};
  problem.experts = p.num_local_experts;
  problem.top_k = p.top_k;
  problem.max_tokens = p.max_tokens;
  problem.activation_dtype = p.activation_dtype;
  problem.output_dtype = p.output_dtype;
  problem.weight_scheme = text(p.weight_scheme);
  problem.activations = text(p.act_scheme);
  problem.activation = p.activation;
  problem.weight_on_input = (p.flags & MOERT_PROBLEM_WEIGHT_ON_INPUT) != 0;
  problem.gemm = gemm;
  return problem;
}

std::string experts_refusal(const moert_moe_problem_t& p) {
  if ((p.flags & ~kKnownFlags) != 0)
    return "problem flag bits " + std::to_string(p.flags & ~kKnownFlags) + " are not known";
  if ((p.flags & MOERT_PROBLEM_LORA) != 0 || p.lora_max_rank != 0 || p.lora_slots != 0)
    return "adapters (LoRA) are not supported";
  if (p.num_experts < 1)
    return "num_experts " + std::to_string(p.num_experts) + ": must be at least 1";
  if (p.tp_size != 1 || p.tp_rank != 0)
    return "tensor parallelism: tp_size " + std::to_string(p.tp_size) + ", only 1";
  // Ids are local already, so expert parallelism is the caller's affair.
  if (p.ep_size < 1 || p.ep_rank < 0 || p.ep_rank >= p.ep_size)
    return "ep_rank " + std::to_string(p.ep_rank) + " is not in [0, ep_size " +
           std::to_string(p.ep_size) + ")";
  if (std::string reason = refusal(problem_of(p)); !reason.empty()) return reason;
  if ((p.flags & MOERT_PROBLEM_GRAPH) != 0 && !remembered_facts(p.device.ordinal).graphs)
    return "this device has no graphs";
  return {};
}

// Before anything is allocated.
moert_moe_problem_t accepted(const moert_moe_problem_t& problem, const Options& options) {
  options.allow({"gemm"});
  if (const std::string reason = experts_refusal(problem); !reason.empty())
    throw PluginError(MOERT_UNIMPLEMENTED, reason);
  return problem;
}

}  // namespace

Support GpuExperts::supports(const Host&, const moert_moe_problem_t& problem) {
  if (const std::string reason = experts_refusal(problem); !reason.empty())
    return Support::no(reason);
  Support answer = Support::yes(MOERT_SUPPORT_DETERMINISTIC | MOERT_SUPPORT_CONCURRENT_LOAD);
  if (remembered_facts(problem.device.ordinal).graphs) answer.flags |= MOERT_SUPPORT_GRAPH_SAFE;
  answer.persistent_bytes = persistent_bytes(problem_of(problem));
  answer.reason = service_text(problem_of(problem));
  return answer;
}

GpuExperts::GpuExperts(const Host&, const moert_moe_problem_t& problem, const Options& options)
    : device_(accepted(problem, options).device),
      hidden_(problem.hidden_size),
      experts_(problem.num_local_experts),
      top_k_(problem.top_k),
      max_tokens_(problem.max_tokens),
      activation_dtype_(problem.activation_dtype),
      output_dtype_(problem.output_dtype),
      mlps_(problem_of(problem, gemm_kernel(options.get("gemm")))) {}

void GpuExperts::load(const moert_piece_t& piece) {
  if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "load after finish");
  mlps_.load(piece);
}

void GpuExperts::finish() {
  if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "finish was called before");
  mlps_.expect_complete();
  mlps_.finish();
  finished_ = true;
}

uint64_t GpuExperts::workspace(int64_t tokens) { return mlps_.workspace(tokens); }

MlpBatch GpuExperts::checked(const moert_experts_args_t& args) const {
  must_understand(args.flags, 0, "arguments of forward");
  if (args.lora != nullptr)
    throw PluginError(MOERT_UNIMPLEMENTED, "adapters (LoRA) are not supported");
  const Matrix hidden = matrix(args.hidden, "hidden", {activation_dtype_}, -1, hidden_, device_);
  const int64_t tokens = hidden.rows;
  if (tokens > max_tokens_)
    throw PluginError(
        MOERT_INVALID_ARGUMENT,
        std::to_string(tokens) + " tokens, but max_tokens is " + std::to_string(max_tokens_));
  MlpBatch batch;
  batch.tokens = tokens;
  batch.hidden = hidden.numbers();
  batch.ids = matrix(args.ids, "ids", {MOERT_DTYPE_I32}, tokens, top_k_, device_).slots<int32_t>();
  batch.weights =
      matrix(args.weights, "weights", {MOERT_DTYPE_F32}, tokens, top_k_, device_).slots<float>();
  batch.out = matrix(args.out, "out", {output_dtype_}, tokens, hidden_, device_).numbers();
  expect_workspace(args.workspace, args.workspace_bytes, mlps_.workspace(tokens));
  return batch;
}

void GpuExperts::forward(const moert_experts_args_t& args) {
  if (!finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "forward before finish");
  const Stream stream = native_stream(args.stream, device_);
  const MlpBatch batch = checked(args);
  const CurrentDevice current(device_.ordinal);
  mlps_.forward(batch, args.workspace, stream);
}

uint64_t GpuExperts::bundle_bytes() { return mlps_.bundle_bytes(); }

void GpuExperts::expect_bundle(int64_t expert, const void* bundle, uint64_t bytes) const {
  if (!finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "a bundle before finish");
  if (expert < 0 || expert >= experts_)
    throw PluginError(
        MOERT_INVALID_ARGUMENT,
        "expert " + std::to_string(expert) + " is not in [0, " + std::to_string(experts_) + ")");
  if (bundle == nullptr || bytes != mlps_.bundle_bytes())
    throw PluginError(MOERT_INVALID_ARGUMENT, "a bundle of " + std::to_string(bytes) +
                                                  " bytes, expected " +
                                                  std::to_string(mlps_.bundle_bytes()));
}

void GpuExperts::read_expert(int64_t expert, void* bundle, uint64_t bytes,
                             const moert_stream_t* stream) {
  expect_bundle(expert, bundle, bytes);
  mlps_.read(expert, bundle, native_stream(stream, device_));
}

void GpuExperts::write_expert(int64_t expert, const void* bundle, uint64_t bytes,
                              const moert_stream_t* stream) {
  expect_bundle(expert, bundle, bytes);
  mlps_.write(expert, bundle, native_stream(stream, device_));
}

}  // namespace moert::gpu
