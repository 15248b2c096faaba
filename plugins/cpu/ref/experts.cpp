// cpu.ref of moert.routed_experts/1: the oracle. Plain loops, f64, one rounding at the end.
// SPDX-License-Identifier: Apache-2.0
#include "experts.hpp"

#include <moert/sdk/tensor.hpp>

#include "matrix.hpp"
#include "scratch.hpp"

namespace moert::cpu {
namespace {

constexpr uint32_t kKnownFlags = MOERT_PROBLEM_NON_GATED | MOERT_PROBLEM_BIAS |
                                 MOERT_PROBLEM_WEIGHT_ON_INPUT | MOERT_PROBLEM_LORA |
                                 MOERT_PROBLEM_BUNDLES | MOERT_PROBLEM_GRAPH;

MlpShape shape_of(const moert_moe_problem_t& p) {
  return {p.hidden_size, p.intermediate_size, (p.flags & MOERT_PROBLEM_NON_GATED) == 0,
          (p.flags & MOERT_PROBLEM_BIAS) != 0};
}

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

std::string refusal(const moert_moe_problem_t& p) {
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

moert_moe_problem_t accepted(const moert_moe_problem_t& problem) {
  if (const std::string reason = refusal(problem); !reason.empty())
    throw PluginError(MOERT_UNIMPLEMENTED, reason);
  return problem;
}

}  // namespace

Support RefExperts::supports(const Host&, const moert_moe_problem_t& problem) {
  if (const std::string reason = refusal(problem); !reason.empty()) return Support::no(reason);
  Support answer = Support::yes(MOERT_SUPPORT_DETERMINISTIC | MOERT_SUPPORT_CONCURRENT_LOAD);
  int64_t floats = 0;
  shape_of(problem).count(&floats);
  answer.persistent_bytes = static_cast<uint64_t>(floats) * sizeof(float) *
                            static_cast<uint64_t>(problem.num_local_experts);
  return answer;
}

RefExperts::RefExperts(const Host& host, const moert_moe_problem_t& problem, const Options& options)
    : host_(host),
      top_k_(accepted(problem).top_k),
      max_tokens_(problem.max_tokens),
      activation_dtype_(problem.activation_dtype),
      output_dtype_(problem.output_dtype),
      weight_on_input_((problem.flags & MOERT_PROBLEM_WEIGHT_ON_INPUT) != 0),
      activation_(intake(problem.activation)),
      weights_(host, shape_of(problem), problem.num_local_experts) {
  options.allow({});
}

void RefExperts::load(const moert_piece_t& piece) {
  if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "load after finish");
  weights_.load(piece);
}

void RefExperts::finish() {
  if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "finish was called before");
  weights_.expect_complete();
  finished_ = true;
}

uint64_t RefExperts::workspace(int64_t tokens) {
  const int64_t h = weights_.shape().hidden;
  return Scratch::bytes(host_, tokens, {h, h, h, weights_.scratch()});
}

// The tensors of one forward, after every check.
struct RefExperts::Rows {
  Matrix hidden, ids, weights, out;
};

RefExperts::Rows RefExperts::check(const moert_experts_args_t& args) {
  if (!finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "forward before finish");
  must_understand(args.flags, 0, "arguments of forward");
  if (args.lora != nullptr)
    throw PluginError(MOERT_UNIMPLEMENTED, "adapters (LoRA) are not supported");
  const int64_t h = weights_.shape().hidden;
  const Matrix hidden = matrix(args.hidden, "hidden", {activation_dtype_}, -1, h);
  const int64_t tokens = hidden.rows();
  if (tokens > max_tokens_)
    throw PluginError(
        MOERT_INVALID_ARGUMENT,
        std::to_string(tokens) + " tokens, but max_tokens is " + std::to_string(max_tokens_));
  const Rows rows = {hidden, matrix(args.ids, "ids", {MOERT_DTYPE_I32}, tokens, top_k_),
                     matrix(args.weights, "weights", {MOERT_DTYPE_F32}, tokens, top_k_),
                     matrix(args.out, "out", {output_dtype_}, tokens, h)};
  Scratch::expect(args.workspace, args.workspace_bytes, workspace(tokens));
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t j = 0; j < top_k_; ++j) {
      const int32_t id = rows.ids.integer(t, j);
      if (id < -1 || id >= weights_.count())
        throw PluginError(MOERT_INVALID_ARGUMENT,
                          "ids[" + std::to_string(t) + ", " + std::to_string(j) + "] is " +
                              std::to_string(id) + ", expected -1 or an expert below " +
                              std::to_string(weights_.count()));
    }
  }
  return rows;
}

void RefExperts::token(const Rows& rows, int64_t t, double* scratch) const {
  const int64_t h = weights_.shape().hidden;
  double* x = scratch;
  double* scaled = x + h;
  double* sum = scaled + h;
  double* spare = sum + h;
  for (int64_t c = 0; c < h; ++c) {
    x[c] = rows.hidden.number(t, c);
    sum[c] = 0;
  }
  for (int64_t j = 0; j < top_k_; ++j) {
    const int32_t id = rows.ids.integer(t, j);
    if (id < 0) continue;  // not "times zero": 0 * inf would be NaN
    const double weight = rows.weights.number(t, j);
    if (weight_on_input_)
      for (int64_t c = 0; c < h; ++c) scaled[c] = weight * x[c];
    const double factor = weight_on_input_ ? 1.0 : weight;
    weights_.row(id, activation_, weight_on_input_ ? scaled : x, spare,
                 [&](int64_t c, double y) { sum[c] += factor * y; });
  }
  for (int64_t c = 0; c < h; ++c) rows.out.set(t, c, sum[c]);
}

void RefExperts::forward(const moert_experts_args_t& args) {
  const Rows rows = check(args);
  const int64_t h = weights_.shape().hidden;
  const Scratch scratch(args.workspace, {h, h, h, weights_.scratch()});
  host_.parallel_for(rows.hidden.rows(), 1, [&](int64_t begin, int64_t end, int32_t worker) {
    for (int64_t t = begin; t < end; ++t) token(rows, t, scratch.of(worker));
  });
}

uint64_t RefExperts::bundle_bytes() { return weights_.bundle_bytes(); }

void RefExperts::expect_bundle(int64_t expert, const void* bundle, uint64_t bytes) {
  if (!finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "a bundle before finish");
  if (expert < 0 || expert >= weights_.count())
    throw PluginError(MOERT_INVALID_ARGUMENT, "expert " + std::to_string(expert) +
                                                  " is not in [0, " +
                                                  std::to_string(weights_.count()) + ")");
  if (bundle == nullptr || bytes != bundle_bytes())
    throw PluginError(MOERT_INVALID_ARGUMENT, "a bundle of " + std::to_string(bytes) +
                                                  " bytes, expected " +
                                                  std::to_string(bundle_bytes()));
}

void RefExperts::read_expert(int64_t expert, void* bundle, uint64_t bytes, const moert_stream_t*) {
  expect_bundle(expert, bundle, bytes);
  weights_.read(expert, bundle);
}

void RefExperts::write_expert(int64_t expert, const void* bundle, uint64_t bytes,
                              const moert_stream_t*) {
  expect_bundle(expert, bundle, bytes);
  weights_.write(expert, bundle);
}

}  // namespace moert::cpu
