// SPDX-License-Identifier: Apache-2.0
#include "bench_layers.hpp"

#include <exception>
#include <mutex>
#include <random>

#include "measurements.hpp"
#include "runtime/call.hpp"
#include "signals.hpp"

namespace moert::tool {

namespace {

// Between 1/2 and 2, of both signs.
uint16_t moderate_bf16(uint32_t bits) {
  return static_cast<uint16_t>(0x3f00u + (bits & 0xffu) + ((bits & 0x100u) << 7u));
}

// Experts handed over by the host's threads. What one of them threw comes back to the caller.
struct Packing {
  const SyntheticExpert& expert;
  const runtime::Part<moert_routed_experts_t>& layer;
  std::mutex mutex{};
  std::exception_ptr thrown{};

  static void part(void* self, int64_t begin, int64_t end, int32_t) {
    auto* it = static_cast<Packing*>(self);
    try {
      for (int64_t e = begin; e < end; ++e) it->expert.load(it->layer, e);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(it->mutex);
      it->thrown = std::current_exception();
    }
  }
};

}  // namespace

BenchProblem::BenchProblem(const BenchShape& of, const BenchScheme& with, int64_t max_tokens)
    : shape(of), scheme(with.scheme.name) {
  activation.struct_size = sizeof activation;
  activation.name = shape.activation.c_str();
  activation.alpha = shape.alpha;
  activation.beta = shape.beta;
  activation.limit = shape.limit;
  problem.struct_size = sizeof problem;
  problem.flags = shape.biased ? uint32_t{MOERT_PROBLEM_BIAS} : 0u;
  problem.device = kCpu;
  problem.max_tokens = max_tokens;
  problem.hidden_size = shape.hidden;
  problem.intermediate_size = shape.intermediate;
  problem.num_experts = problem.num_physical_experts = problem.num_local_experts = shape.experts;
  problem.top_k = shape.top_k;
  problem.activation_dtype = problem.output_dtype = MOERT_DTYPE_BF16;
  problem.weight_scheme = scheme.c_str();
  problem.act_scheme = "none";
  problem.activation = &activation;
  problem.ep_size = problem.tp_size = 1;
}

BenchRows::BenchRows(const BenchShape& shape, int64_t count)
    : tokens(count),
      hidden(static_cast<size_t>(count * shape.hidden)),
      out(hidden.size()),
      weights(static_cast<size_t>(count * shape.top_k), 1.0f / static_cast<float>(shape.top_k)) {
  std::minstd_rand random(7);
  for (uint16_t& value : hidden) value = moderate_bf16(static_cast<uint32_t>(random()) >> 8u);
}

BenchLayers::BenchLayers(const runtime::Session& session, const registry::Candidate& candidate,
                         const BenchProblem& problem, const SyntheticExpert& expert, int64_t layers,
                         bool concurrent)
    : shape_(problem.shape) {
  for (int64_t i = 0; i < layers; ++i) {
    throw_if_interrupted();
    void* self = nullptr;
    runtime::Call call;
    call.check(registry::table_of<moert_routed_experts_t>(candidate)->create(
                   session.host(), &problem.problem, nullptr, 0, &self, call.out()),
               candidate.name, "create", problem.scheme);
    layers_.emplace_back(candidate, self);
    const BenchClock::time_point start = BenchClock::now();
    pack(session, expert, shape_.experts, concurrent, layers_.back());
    pack_seconds_ += seconds_since(start);
  }
}

void BenchLayers::pack(const runtime::Session& session, const SyntheticExpert& expert,
                       int64_t experts, bool concurrent, const Experts& layer) const {
  Packing packing{expert, layer};
  if (concurrent)
    session.host()->parallel_for(session.host()->ctx, experts, 1, &Packing::part, &packing);
  else
    Packing::part(&packing, 0, experts, 0);
  if (packing.thrown) std::rethrow_exception(packing.thrown);
  runtime::Call call;
  call.check(layer->finish(layer.self(), call.out()), layer.name(), "finish");
}

void* BenchLayers::workspace(const Experts& layer, int64_t tokens, uint64_t* bytes) {
  constexpr size_t kAlign = 64;
  runtime::Call call;
  call.check(layer->workspace(layer.self(), tokens, bytes, call.out()), layer.name(), "workspace");
  if (workspace_.size() < *bytes + kAlign) workspace_.resize(*bytes + kAlign);
  unsigned char* base = workspace_.data();
  return base + (kAlign - reinterpret_cast<uintptr_t>(base) % kAlign) % kAlign;
}

double BenchLayers::forward(int64_t layer, BenchRows& rows) {
  const Experts& experts = layers_[static_cast<size_t>(layer)];
  const TensorView hidden(rows.hidden.data(), MOERT_DTYPE_BF16, {rows.tokens, shape_.hidden});
  const TensorView ids(rows.ids.data(), MOERT_DTYPE_I32, {rows.tokens, shape_.top_k});
  const TensorView weights(rows.weights.data(), MOERT_DTYPE_F32, {rows.tokens, shape_.top_k});
  const TensorView out(rows.out.data(), MOERT_DTYPE_BF16, {rows.tokens, shape_.hidden});
  moert_experts_args_t args{};
  args.struct_size = sizeof args;
  args.hidden = hidden;
  args.ids = ids;
  args.weights = weights;
  args.out = out;
  args.workspace = workspace(experts, rows.tokens, &args.workspace_bytes);
  runtime::Call call;
  const BenchClock::time_point start = BenchClock::now();
  call.check(experts->forward(experts.self(), &args, call.out()), experts.name().c_str(),
             "forward");
  return seconds_since(start);
}

}  // namespace moert::tool
