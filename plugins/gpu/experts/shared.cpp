// "<word>.shared" of moert.shared_experts/1: one dense MLP on a GPU, with or without a sigmoid gate.
// SPDX-License-Identifier: Apache-2.0
#include "shared.hpp"

#include "../device_memory.hpp"
#include "../tensors.hpp"
#include "../upload.hpp"
#include "combine.hpp"

namespace moert::gpu {
namespace {

constexpr uint32_t kKnownFlags =
    MOERT_SHARED_SIGMOID_GATE | MOERT_SHARED_NON_GATED | MOERT_SHARED_BIAS;

std::string_view text(const char* word) { return word == nullptr ? "" : word; }

MlpProblem problem_of(const moert_shared_problem_t& p) {
  MlpProblem problem;
  problem.device = p.device;
  problem.sizes = {p.hidden_size, p.intermediate_size, (p.flags & MOERT_SHARED_NON_GATED) == 0,
                   (p.flags & MOERT_SHARED_BIAS) != 0};
  problem.max_tokens = p.max_tokens;
  problem.activation_dtype = p.activation_dtype;
  problem.output_dtype = p.output_dtype;
  problem.weight_scheme = text(p.weight_scheme);
  problem.activations = text(p.act_scheme);
  problem.activation = p.activation;
  return problem;
}

std::string shared_refusal(const moert_shared_problem_t& p) {
  if ((p.flags & ~kKnownFlags) != 0)
    return "problem flag bits " + std::to_string(p.flags & ~kKnownFlags) + " are not known";
  if (p.tp_size != 1 || p.tp_rank != 0)
    return "tensor parallelism: tp_size " + std::to_string(p.tp_size) + ", only 1";
  return refusal(problem_of(p));
}

// Before anything is allocated.
moert_shared_problem_t accepted(const moert_shared_problem_t& problem, const Options& options) {
  options.allow({});
  if (const std::string reason = shared_refusal(problem); !reason.empty())
    throw PluginError(MOERT_UNIMPLEMENTED, reason);
  return problem;
}

template <class T>
T load_at(const Matrix& m, int64_t col) {
  T value;  // may be unaligned: weights come from files
  std::memcpy(&value,
              static_cast<const unsigned char*>(m.data) +
                  col * m.col_stride * static_cast<int64_t>(sizeof(T)),
              sizeof value);
  return value;
}

double number_at(const Matrix& m, int64_t col) {
  switch (m.dtype) {
    case MOERT_DTYPE_F64: return load_at<double>(m, col);
    case MOERT_DTYPE_F32: return static_cast<double>(load_at<float>(m, col));
    case MOERT_DTYPE_BF16: return static_cast<double>(bf16_to_f32(load_at<uint16_t>(m, col)));
    default: return static_cast<double>(f16_to_f32(load_at<uint16_t>(m, col)));
  }
}

}  // namespace

Support GpuShared::supports(const Host&, const moert_shared_problem_t& problem) {
  if (const std::string reason = shared_refusal(problem); !reason.empty())
    return Support::no(reason);
  Support answer = Support::yes(MOERT_SUPPORT_DETERMINISTIC);
  if (remembered_facts(problem.device.ordinal).graphs) answer.flags |= MOERT_SUPPORT_GRAPH_SAFE;
  answer.persistent_bytes = persistent_bytes(problem_of(problem));
  if ((problem.flags & MOERT_SHARED_SIGMOID_GATE) != 0)
    answer.persistent_bytes += static_cast<uint64_t>(problem.hidden_size) * sizeof(double);
  answer.reason = service_text(problem_of(problem));
  return answer;
}

GpuShared::GpuShared(const Host&, const moert_shared_problem_t& problem, const Options& options)
    : device_(accepted(problem, options).device),
      hidden_(problem.hidden_size),
      max_tokens_(problem.max_tokens),
      activation_dtype_(problem.activation_dtype),
      output_dtype_(problem.output_dtype),
      has_gate_((problem.flags & MOERT_SHARED_SIGMOID_GATE) != 0),
      mlps_(problem_of(problem)) {
  if (!has_gate_) return;
  const CurrentDevice current(device_.ordinal);
  gate_ = static_cast<double*>(
      allocate_for("the gate of shared experts", static_cast<uint64_t>(hidden_) * sizeof(double)));
}

GpuShared::~GpuShared() {
  try {
    const CurrentDevice current(device_.ordinal);
    release(gate_);
  } catch (const PluginError&) {  // a device that is lost: nothing is left to give back
  }
}

void GpuShared::load(const moert_piece_t& piece) {
  if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "load after finish");
  if (piece.part == MOERT_PART_SIGMOID_GATE)
    load_gate(piece);
  else
    mlps_.load(piece);
}

void GpuShared::load_gate(const moert_piece_t& piece) {
  must_understand(piece.flags, 0, "piece");
  if (!has_gate_ || piece.role != MOERT_ROLE_WEIGHT || piece.expert != 0)
    throw PluginError(MOERT_INVALID_ARGUMENT, "the layer has no such sigmoid gate");
  if (!gate_numbers_.empty())
    throw PluginError(MOERT_ALREADY_EXISTS, "the sigmoid gate was loaded before");
  const Matrix gate = matrix(piece.tensor, "the sigmoid gate",
                             {MOERT_DTYPE_F32, MOERT_DTYPE_BF16, MOERT_DTYPE_F16, MOERT_DTYPE_F64},
                             1, hidden_, kCpu, MOERT_DATA_LOSS);
  std::vector<double> numbers(static_cast<size_t>(hidden_));
  for (int64_t c = 0; c < hidden_; ++c) numbers[static_cast<size_t>(c)] = number_at(gate, c);
  const CurrentDevice current(device_.ordinal);
  copy_and_wait(gate_, numbers.data(), numbers.size() * sizeof(double));
  gate_numbers_ = std::move(numbers);
}

void GpuShared::finish() {
  if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "finish was called before");
  mlps_.expect_complete();
  if (has_gate_ && gate_numbers_.empty())
    throw PluginError(MOERT_FAILED_PRECONDITION, "the sigmoid gate was never loaded");
  mlps_.finish();
  finished_ = true;
}

uint64_t GpuShared::factor_bytes(int64_t tokens) {
  Arena arena;
  arena.take<float>(tokens < 0 ? 0 : tokens);
  return arena.used();
}

uint64_t GpuShared::workspace(int64_t tokens) {
  return mlps_.workspace(tokens) + (has_gate_ ? factor_bytes(tokens) : 0);
}

void GpuShared::forward(const moert_shared_args_t& args) {
  if (!finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "forward before finish");
  must_understand(args.flags, 0, "arguments of forward");
  const Stream stream = native_stream(args.stream, device_);
  const Matrix hidden = matrix(args.hidden, "hidden", {activation_dtype_}, -1, hidden_, device_);
  const int64_t tokens = hidden.rows;
  if (tokens > max_tokens_)
    throw PluginError(
        MOERT_INVALID_ARGUMENT,
        std::to_string(tokens) + " tokens, but max_tokens is " + std::to_string(max_tokens_));
  MlpBatch batch;
  batch.tokens = tokens;
  batch.hidden = hidden.numbers();
  batch.out = matrix(args.out, "out", {output_dtype_}, tokens, hidden_, device_).numbers();
  expect_workspace(args.workspace, args.workspace_bytes, workspace(tokens));
  if (tokens == 0) return;
  const CurrentDevice current(device_.ordinal);
  if (has_gate_) {
    auto* factors = reinterpret_cast<float*>(static_cast<unsigned char*>(args.workspace) +
                                             mlps_.workspace(tokens));
    launch_sigmoid_gate({batch.hidden, gate_, tokens, hidden_, factors},
                        remembered_facts(device_.ordinal).warp, stream);
    batch.weights = {factors, 1, 0};
  }
  mlps_.forward(batch, args.workspace, stream);
}

}  // namespace moert::gpu
