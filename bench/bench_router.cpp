// A router's logits, and the rule behind them, by cpu.simd and cpu.ref.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <moert/abi/router.h>
#include <moert/sdk/tensor.hpp>

#include "runtime/session.hpp"

namespace {

using moert::TensorView;

struct Size {
  const char* model;
  int64_t hidden, experts, top_k;
};
constexpr Size kSizes[] = {{"OLMoE", 2048, 64, 8}, {"DeepSeek-V3", 7168, 256, 8}};
constexpr const char* kCandidates[] = {"cpu.simd", "cpu.ref"};

void expect(moert_code_t code, const moert_error_t& error) {
  if (code != MOERT_OK) throw std::runtime_error(error.message);
}

moert::runtime::Session& session() {
  static moert::runtime::Session it(moert::runtime::SessionOptions{});
  return it;
}

// A router of bf16, with all that a call needs.
class Router {
 public:
  Router(const char* candidate, const Size& size, int64_t tokens)
      : tokens_(tokens), size_(size), table_(table(candidate)) {
    error_.struct_size = sizeof error_;
    moert_routing_t r{};
    r.struct_size = sizeof r;
    r.device = moert::kCpu;
    r.max_tokens = tokens;
    r.hidden_size = size.hidden;
    r.num_experts = size.experts;
    r.top_k = size.top_k;
    r.activation_dtype = MOERT_DTYPE_BF16;
    r.method = "topk";
    r.scoring = "softmax";
    r.routed_scale = 1;
    expect(table_.create(session().host(), &r, nullptr, 0, &self_, &error_), error_);
    const std::vector<uint16_t> gate = random_bf16(size.experts * size.hidden);
    const TensorView view(static_cast<const void*>(gate.data()), MOERT_DTYPE_BF16,
                          {size.experts, size.hidden});
    expect(table_.load(self_, MOERT_ROUTER_GATE_WEIGHT, view, &error_), error_);
    expect(table_.finish(self_, &error_), error_);
    uint64_t bytes = 0;
    expect(table_.workspace(self_, tokens, &bytes, &error_), error_);
    workspace_.resize(bytes + 64);
    hidden_ = random_bf16(tokens * size.hidden);
    logits_.resize(static_cast<size_t>(tokens * size.experts));
    ids_.resize(static_cast<size_t>(tokens * size.top_k));
    weights_.resize(ids_.size());
  }
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;
  ~Router() { table_.destroy(self_); }

  void call(bool route) {
    const TensorView hidden(hidden_.data(), MOERT_DTYPE_BF16, {tokens_, size_.hidden});
    const TensorView logits(logits_.data(), MOERT_DTYPE_F32, {tokens_, size_.experts});
    const TensorView ids(ids_.data(), MOERT_DTYPE_I32, {tokens_, size_.top_k});
    const TensorView weights(weights_.data(), MOERT_DTYPE_F32, {tokens_, size_.top_k});
    unsigned char* base = workspace_.data();
    base += (64 - reinterpret_cast<uintptr_t>(base) % 64) % 64;
    moert_router_args_t args{};
    args.struct_size = sizeof args;
    args.hidden = hidden;
    args.logits = logits;
    args.ids = ids;
    args.weights = weights;
    args.workspace = base;
    args.workspace_bytes = workspace_.size() - 64;
    expect((route ? table_.route : table_.logits)(self_, &args, &error_), error_);
  }

 private:
  static const moert_router_t& table(const char* name) {
    const auto* candidate = session().registry().find(MOERT_KIND_ROUTER, name);
    if (candidate == nullptr) throw std::runtime_error(std::string("there is no ") + name);
    return *moert::registry::table_of<moert_router_t>(*candidate);
  }
  static std::vector<uint16_t> random_bf16(int64_t count) {
    std::minstd_rand random(7);
    std::vector<uint16_t> values(static_cast<size_t>(count));
    for (uint16_t& value : values)
      value = static_cast<uint16_t>(0x3c00u | (random() >> 8 & 0x80ffu));
    return values;
  }

  const int64_t tokens_;
  const Size size_;
  const moert_router_t& table_;
  moert_error_t error_{};
  void* self_ = nullptr;
  std::vector<unsigned char> workspace_;
  std::vector<uint16_t> hidden_;
  std::vector<float> logits_, weights_;
  std::vector<int32_t> ids_;
};

void run(benchmark::State& state, bool route) {
  const Size& size = kSizes[state.range(1)];
  Router router(kCandidates[state.range(0)], size, state.range(2));
  state.SetLabel(std::string(kCandidates[state.range(0)]) + ", " + size.model);
  router.call(false);
  for (auto _ : state) router.call(route);
  if (!route)
    state.counters["GMAC/s"] =
        benchmark::Counter(static_cast<double>(size.hidden * size.experts * state.range(2)) / 1e9,
                           benchmark::Counter::kIsIterationInvariantRate);
}

void logits(benchmark::State& state) { run(state, false); }
void rule(benchmark::State& state) { run(state, true); }
BENCHMARK(logits)
    ->ArgsProduct({{0, 1}, {0, 1}, {1, 16, 512}})
    ->ArgNames({"candidate", "size", "tokens"})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(rule)
    ->ArgsProduct({{0}, {0, 1}, {1, 512}})
    ->ArgNames({"candidate", "size", "tokens"})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
