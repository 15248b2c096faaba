// SPDX-License-Identifier: Apache-2.0
#include "bench_layers.hpp"

#include <algorithm>
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

BenchProblem::BenchProblem(const BenchShape& of, const BenchScheme& with, int64_t max_tokens,
                           moert_device_id_t device)
    : shape(of), scheme(with.scheme.name) {
  activation.struct_size = sizeof activation;
  activation.name = shape.activation.c_str();
  activation.alpha = shape.alpha;
  activation.beta = shape.beta;
  activation.limit = shape.limit;
  problem.struct_size = sizeof problem;
  problem.flags = shape.biased ? uint32_t{MOERT_PROBLEM_BIAS} : 0u;
  problem.device = device;
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

BenchRows::BenchRows(const BenchShape& shape, int64_t count, const runtime::Device& on)
    : device(on),
      tokens(count),
      ids(static_cast<size_t>(count * shape.top_k)),
      hidden(on),
      out(on),
      device_ids(on),
      weights(on) {
  std::minstd_rand random(7);
  std::vector<uint16_t> numbers(static_cast<size_t>(count * shape.hidden));
  for (uint16_t& value : numbers) value = moderate_bf16(static_cast<uint32_t>(random()) >> 8u);
  const std::vector<float> equal(ids.size(), 1.0f / static_cast<float>(shape.top_k));
  hidden.reserve(numbers.size() * sizeof numbers[0], "the rows of hidden states");
  out.reserve(hidden.bytes(), "the rows of output");
  device_ids.reserve(ids.size() * sizeof ids[0], "the ids of experts");
  weights.reserve(equal.size() * sizeof equal[0], "the weights of experts");
  device.copy_to_device(hidden.data(), numbers.data(), hidden.bytes());
  device.copy_to_device(weights.data(), equal.data(), weights.bytes());
  device.synchronize();
}

void BenchRows::send_ids() const {
  device.copy_to_device(device_ids.data(), ids.data(), device_ids.bytes());
}

uint64_t BenchRows::memory_bytes(const BenchShape& shape, int64_t tokens) {
  return static_cast<uint64_t>(tokens) *
         (2 * dtype_bytes(MOERT_DTYPE_BF16, shape.hidden) +
          dtype_bytes(MOERT_DTYPE_I32, shape.top_k) + dtype_bytes(MOERT_DTYPE_F32, shape.top_k));
}

BenchLayers::BenchLayers(const runtime::Session& session, const registry::Candidate& candidate,
                         const BenchProblem& problem, const SyntheticExpert& expert, int64_t layers,
                         bool concurrent, BenchDevice& device)
    : shape_(problem.shape), device_(device), workspace_(device.device()) {
  const std::vector<moert_kv_t> options = problem.options.entries();
  for (int64_t i = 0; i < layers; ++i) {
    throw_if_interrupted();
    void* self = nullptr;
    runtime::Call call;
    const moert_code_t code = registry::table_of<moert_routed_experts_t>(candidate)->create(
        session.host(), &problem.problem, options.data(), static_cast<uint32_t>(options.size()),
        &self, call.out());
    problem.options.check_create(call, code, candidate.name, problem.scheme);
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

void BenchLayers::prepare(const BenchRows& rows, bool graphs) {
  graphs_.clear();
  rows_ = &rows;
  workspace_bytes_ = 0;
  runtime::Call call;
  for (const Experts& layer : layers_) {
    uint64_t bytes = 0;
    call.check(layer->workspace(layer.self(), rows.tokens, &bytes, call.out()), layer.name(),
               "workspace");
    workspace_bytes_ = std::max(workspace_bytes_, bytes);
  }
  workspace_.reserve(workspace_bytes_, "the workspace of a forward");
  if (!graphs) return;
  // What is done at the first call of a kernel, such as loading it, cannot be recorded.
  enqueue(layers_.front());
  rows.device.synchronize();
  for (const Experts& layer : layers_) {
    graphs_.push_back(std::make_unique<runtime::DeviceGraph>(rows.device, [&] { enqueue(layer); }));
    graphs_.back()->launch();  // the first time takes longer than all others
  }
  rows.device.synchronize();
}

void BenchLayers::enqueue(const Experts& layer) const {
  const BenchRows& rows = *rows_;
  const auto on_device = [&](TensorView view) {
    view.set_device(rows.device.id());
    return view;
  };
  const void* read[] = {rows.hidden.data(), rows.device_ids.data(), rows.weights.data()};
  const TensorView hidden = on_device({read[0], MOERT_DTYPE_BF16, {rows.tokens, shape_.hidden}});
  const TensorView ids = on_device({read[1], MOERT_DTYPE_I32, {rows.tokens, shape_.top_k}});
  const TensorView weights = on_device({read[2], MOERT_DTYPE_F32, {rows.tokens, shape_.top_k}});
  const TensorView out =
      on_device({rows.out.data(), MOERT_DTYPE_BF16, {rows.tokens, shape_.hidden}});
  moert_experts_args_t args{};
  args.struct_size = sizeof args;
  args.stream = rows.device.stream();
  args.hidden = hidden;
  args.ids = ids;
  args.weights = weights;
  args.out = out;
  args.workspace = workspace_.data();
  args.workspace_bytes = workspace_bytes_;
  runtime::Call call;
  call.check(layer->forward(layer.self(), &args, call.out()), layer.name().c_str(), "forward");
}

double BenchLayers::forward(int64_t layer) {
  const auto index = static_cast<size_t>(layer);
  if (graphs_.empty()) return device_.seconds([&] { enqueue(layers_[index]); });
  return device_.seconds([&] { graphs_[index]->launch(); });
}

}  // namespace moert::tool
