// cpu.ref of moert.shared_experts/1: one dense MLP, with or without a sigmoid gate.
// SPDX-License-Identifier: Apache-2.0
#include "shared.hpp"

#include "scratch.hpp"

namespace moert::cpu {
namespace {

constexpr uint32_t kKnownFlags =
    MOERT_SHARED_SIGMOID_GATE | MOERT_SHARED_NON_GATED | MOERT_SHARED_BIAS;

MlpShape shape_of(const moert_shared_problem_t& p) {
  return {p.hidden_size, p.intermediate_size, (p.flags & MOERT_SHARED_NON_GATED) == 0,
          (p.flags & MOERT_SHARED_BIAS) != 0};
}

std::string refusal(const moert_shared_problem_t& p) {
  if (p.device.kind != MOERT_DEVICE_CPU) return "the layer's device is not the cpu";
  if ((p.flags & ~kKnownFlags) != 0)
    return "problem flag bits " + std::to_string(p.flags & ~kKnownFlags) + " are not known";
  for (uint32_t dtype : {p.activation_dtype, p.output_dtype})
    if (!is_float(dtype))
      return "rows of type " + std::string(dtype_name(dtype)) + ", only f32, bf16, f16, f64";
  if (p.hidden_size < 1 || p.intermediate_size < 1)
    return "hidden_size " + std::to_string(p.hidden_size) + ", intermediate_size " +
           std::to_string(p.intermediate_size) + ": must be at least 1";
  if (p.max_tokens < 0) return "max_tokens " + std::to_string(p.max_tokens) + " is negative";
  if (p.tp_size != 1 || p.tp_rank != 0)
    return "tensor parallelism: tp_size " + std::to_string(p.tp_size) + ", only 1";
  int64_t size = 0;
  if (!shape_of(p).count(&size) || !product({p.max_tokens, p.hidden_size, 8}, &size))
    return "the sizes do not fit 64 bits";
  return Activation::refusal(p.activation, (p.flags & MOERT_SHARED_NON_GATED) == 0);
}

moert_shared_problem_t accepted(const moert_shared_problem_t& problem) {
  if (const std::string reason = refusal(problem); !reason.empty())
    throw PluginError(MOERT_UNIMPLEMENTED, reason);
  return problem;
}

}  // namespace

Support RefShared::supports(const Host&, const moert_shared_problem_t& problem) {
  if (const std::string reason = refusal(problem); !reason.empty()) return Support::no(reason);
  Support answer = Support::yes(MOERT_SUPPORT_DETERMINISTIC);
  int64_t floats = 0;
  shape_of(problem).count(&floats);
  answer.persistent_bytes = static_cast<uint64_t>(floats) * sizeof(float);
  return answer;
}

RefShared::RefShared(const Host& host, const moert_shared_problem_t& problem,
                     const Options& options)
    : host_(host),
      max_tokens_(accepted(problem).max_tokens),
      activation_dtype_(problem.activation_dtype),
      output_dtype_(problem.output_dtype),
      activation_(intake(problem.activation)),
      weights_(host, shape_of(problem), 1),
      gate_((problem.flags & MOERT_SHARED_SIGMOID_GATE) != 0, problem.hidden_size) {
  options.allow({});
}

void RefShared::load(const moert_piece_t& piece) {
  if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "load after finish");
  if (piece.part == MOERT_PART_SIGMOID_GATE)
    gate_.load(piece);
  else
    weights_.load(piece);
}

void RefShared::finish() {
  if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "finish was called before");
  weights_.expect_complete();
  gate_.expect_complete();
  finished_ = true;
}

uint64_t RefShared::workspace(int64_t tokens) {
  return Scratch::bytes(host_, tokens, {weights_.shape().hidden, weights_.scratch()});
}

void RefShared::token(const Matrix& hidden, const Matrix& out, int64_t t, double* scratch) const {
  const int64_t h = weights_.shape().hidden;
  double* x = scratch;
  hidden.numbers(t, 0, h, x);
  const double factor = gate_.factor(x);
  weights_.row(0, activation_, x, x + h, [&](int64_t c, double y) { out.set(t, c, factor * y); });
}

void RefShared::forward(const moert_shared_args_t& args) {
  if (!finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "forward before finish");
  must_understand(args.flags, 0, "arguments of forward");
  const int64_t h = weights_.shape().hidden;
  const Matrix hidden = matrix(args.hidden, "hidden", {activation_dtype_}, -1, h);
  const int64_t tokens = hidden.rows();
  if (tokens > max_tokens_)
    throw PluginError(
        MOERT_INVALID_ARGUMENT,
        std::to_string(tokens) + " tokens, but max_tokens is " + std::to_string(max_tokens_));
  const Matrix out = matrix(args.out, "out", {output_dtype_}, tokens, h);
  Scratch::expect(args.workspace, args.workspace_bytes, workspace(tokens));
  const Scratch scratch(args.workspace, {h, weights_.scratch()});
  host_.parallel_for(tokens, 1, [&](int64_t begin, int64_t end, int32_t worker) {
    for (int64_t t = begin; t < end; ++t) token(hidden, out, t, scratch.of(worker));
  });
}

}  // namespace moert::cpu
