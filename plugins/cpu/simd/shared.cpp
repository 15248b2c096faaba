// cpu.simd of moert.shared_experts/1: routed experts of one expert that every token takes.
// SPDX-License-Identifier: Apache-2.0
#include "shared.hpp"

#include <algorithm>
#include <moert/sdk/tensor.hpp>

#include "scratch.hpp"

namespace moert::cpu {
namespace {

constexpr uint32_t kKnownFlags =
    MOERT_SHARED_SIGMOID_GATE | MOERT_SHARED_NON_GATED | MOERT_SHARED_BIAS;

moert_moe_problem_t one_expert(const moert_shared_problem_t& p) {
  moert_moe_problem_t all{};
  all.struct_size = sizeof all;
  if ((p.flags & MOERT_SHARED_NON_GATED) != 0) all.flags |= MOERT_PROBLEM_NON_GATED;
  if ((p.flags & MOERT_SHARED_BIAS) != 0) all.flags |= MOERT_PROBLEM_BIAS;
  all.device = p.device;
  all.layer_id = p.layer_id;
  all.max_tokens = p.max_tokens;
  all.hidden_size = p.hidden_size;
  all.intermediate_size = p.intermediate_size;
  all.num_experts = all.num_physical_experts = all.num_local_experts = all.top_k = 1;
  all.activation_dtype = p.activation_dtype;
  all.output_dtype = p.output_dtype;
  all.weight_scheme = p.weight_scheme;
  all.act_scheme = p.act_scheme;
  all.activation = p.activation;
  all.ep_size = 1;
  all.tp_size = p.tp_size;
  all.tp_rank = p.tp_rank;
  return all;
}

std::string flags_refusal(const moert_shared_problem_t& p) {
  if ((p.flags & ~kKnownFlags) == 0) return {};
  return "problem flag bits " + std::to_string(p.flags & ~kKnownFlags) + " are not known";
}

moert_moe_problem_t accepted(const moert_shared_problem_t& problem) {
  if (const std::string reason = flags_refusal(problem); !reason.empty())
    throw PluginError(MOERT_UNIMPLEMENTED, reason);
  return one_expert(problem);
}

uint64_t whole_lines(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

// One id or one weight for each token.
uint64_t list_bytes(int64_t tokens) { return whole_lines(static_cast<uint64_t>(tokens) * 4); }

}  // namespace

Support SimdShared::supports(const Host& host, const moert_shared_problem_t& problem) {
  if (const std::string reason = flags_refusal(problem); !reason.empty())
    return Support::no(reason);
  Support answer = SimdExperts::supports(host, one_expert(problem));
  answer.flags &= ~uint32_t{MOERT_SUPPORT_CONCURRENT_LOAD};  // there is one expert
  if (answer.verdict != 0 && (problem.flags & MOERT_SHARED_SIGMOID_GATE) != 0)
    answer.persistent_bytes += static_cast<uint64_t>(problem.hidden_size) * sizeof(double);
  return answer;
}

SimdShared::SimdShared(const Host& host, const moert_shared_problem_t& problem,
                       const Options& options)
    : host_(host),
      activation_dtype_(problem.activation_dtype),
      hidden_size_(problem.hidden_size),
      max_tokens_(problem.max_tokens),
      experts_(host, accepted(problem), options),
      gate_((problem.flags & MOERT_SHARED_SIGMOID_GATE) != 0, problem.hidden_size) {}

void SimdShared::load(const moert_piece_t& piece) {
  if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "load after finish");
  if (piece.part == MOERT_PART_SIGMOID_GATE)
    gate_.load(piece);
  else
    experts_.load(piece);
}

void SimdShared::finish() {
  if (finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "finish was called before");
  gate_.expect_complete();
  experts_.finish();
  finished_ = true;
}

// Ids, weights, a row in f64 for each worker, and what the experts need.
uint64_t SimdShared::workspace(int64_t tokens) {
  if (tokens <= 0) return 0;
  return 2 * list_bytes(tokens) + Scratch::bytes(host_, tokens, {hidden_size_}) +
         experts_.workspace(tokens);
}

void SimdShared::weigh(const Matrix& hidden, float* weights, double* scratch) const {
  if (!gate_.exists()) {
    std::fill_n(weights, hidden.rows(), 1.0f);
    return;
  }
  const Scratch rows(scratch, {hidden_size_});
  host_.parallel_for(hidden.rows(), 1, [&](int64_t begin, int64_t end, int32_t worker) {
    double* x = rows.of(worker);
    for (int64_t t = begin; t < end; ++t) {
      hidden.numbers(t, 0, hidden_size_, x);
      weights[t] = static_cast<float>(gate_.factor(x));
    }
  });
}

void SimdShared::forward(const moert_shared_args_t& args) {
  if (!finished_) throw PluginError(MOERT_FAILED_PRECONDITION, "forward before finish");
  must_understand(args.flags, 0, "arguments of forward");
  const Matrix hidden = matrix(args.hidden, "hidden", {activation_dtype_}, -1, hidden_size_);
  const int64_t tokens = hidden.rows();
  if (tokens > max_tokens_)
    throw PluginError(
        MOERT_INVALID_ARGUMENT,
        std::to_string(tokens) + " tokens, but max_tokens is " + std::to_string(max_tokens_));
  Scratch::expect(args.workspace, args.workspace_bytes, workspace(tokens));
  auto* base = static_cast<unsigned char*>(args.workspace);
  auto* ids = reinterpret_cast<int32_t*>(base);
  auto* weights = reinterpret_cast<float*>(base + list_bytes(tokens));
  auto* scratch = reinterpret_cast<double*>(base + 2 * list_bytes(tokens));
  const uint64_t used = 2 * list_bytes(tokens) + Scratch::bytes(host_, tokens, {hidden_size_});
  std::fill_n(ids, tokens, 0);
  weigh(hidden, weights, scratch);
  const TensorView id_view(ids, MOERT_DTYPE_I32, {tokens, 1});
  const TensorView weight_view(weights, MOERT_DTYPE_F32, {tokens, 1});
  moert_experts_args_t all{};
  all.struct_size = sizeof all;
  all.stream = args.stream;
  all.hidden = args.hidden;
  all.ids = id_view;
  all.weights = weight_view;
  all.out = args.out;
  all.workspace = base + used;
  all.workspace_bytes = args.workspace_bytes - used;
  experts_.forward(all);
}

}  // namespace moert::cpu
