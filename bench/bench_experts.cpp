// One layer of OLMoE's size through cpu.simd, by format of weights: time, bytes of weights, arithmetic, and the share of what the machine
// gives in the same run.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <moert/abi/quant_method.h>
#include <moert/abi/routed_experts.h>
#include <moert/sdk/tensor.hpp>

#include "machine_limits.hpp"
#include "runtime/session.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using moert::TensorView;

constexpr int64_t kExperts = 64, kTopK = 8, kHidden = 2048, kIntermediate = 1024;
constexpr int64_t kMaxTokens = 512;
constexpr double kWeightsOfExpert = 3.0 * kHidden * kIntermediate;
constexpr char kCandidate[] = "cpu.simd";

// A format as it lies in a checkpoint.
struct Format {
  const char* scheme;
  const char* quant;
  double bytes;  // of a weight, with its share of the scales
  bool codes;    // mxfp4, else bf16
};
constexpr Format kFormats[] = {{"bf16", "quant.bf16", 2, false},
                               {"mxfp4.g32.e8m0", "quant.fp4", 0.53125, true}};

void expect(moert_code_t code, const moert_error_t& error) {
  if (code != MOERT_OK) throw std::runtime_error(error.message);
}

moert::runtime::Session& session() {
  static moert::runtime::Session it([] {
    moert::runtime::SessionOptions options;
    return options;
  }());
  return it;
}

template <class Table>
const Table& table(const char* kind, const char* name) {
  const auto* candidate = session().registry().find(kind, name);
  if (candidate == nullptr) throw std::runtime_error(std::string("there is no ") + name);
  return *moert::registry::table_of<Table>(*candidate);
}

std::vector<uint16_t> random_bf16(int64_t count, uint64_t seed) {
  std::minstd_rand random(static_cast<unsigned>(seed));
  std::vector<uint16_t> values(static_cast<size_t>(count));
  for (uint16_t& value : values) value = static_cast<uint16_t>(0x3c00u | (random() >> 8 & 0x80ffu));
  return values;
}

// The experts have the same numbers, each in its own memory: 805 MB of bf16, 214 MB of mxfp4, so that none is in a
// cache.
class Layer {
 public:
  explicit Layer(const Format& format)
      : format_(format),
        experts_(table<moert_routed_experts_t>(MOERT_KIND_ROUTED_EXPERTS, kCandidate)),
        quant_(table<moert_quant_method_t>(MOERT_KIND_QUANT_METHOD, format.quant)) {
    error_.struct_size = sizeof error_;
    moert_activation_t silu{};
    silu.struct_size = sizeof silu;
    silu.name = "silu";
    moert_moe_problem_t p{};
    p.struct_size = sizeof p;
    p.device = moert::kCpu;
    p.max_tokens = kMaxTokens;
    p.hidden_size = kHidden;
    p.intermediate_size = kIntermediate;
    p.num_experts = p.num_physical_experts = p.num_local_experts = kExperts;
    p.top_k = kTopK;
    p.activation_dtype = p.output_dtype = MOERT_DTYPE_BF16;
    p.weight_scheme = format.scheme;
    p.act_scheme = "none";
    p.activation = &silu;
    p.ep_size = p.tp_size = 1;
    expect(experts_.create(session().host(), &p, nullptr, 0, &self_, &error_), error_);
    expect(quant_.create(session().host(), format.scheme, nullptr, 0, &quant_self_, &error_),
           error_);
    load();
  }
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  ~Layer() {
    experts_.destroy(self_);
    quant_.destroy(quant_self_);
  }

  double load_seconds() const { return load_seconds_; }

  void forward(int64_t tokens, uint16_t* hidden, int32_t* ids, float* weights, uint16_t* out,
               std::vector<unsigned char>* workspace) {
    uint64_t bytes = 0;
    expect(experts_.workspace(self_, tokens, &bytes, &error_), error_);
    if (workspace->size() < bytes + 64) workspace->resize(bytes + 64);
    auto* base = workspace->data();
    base += (64 - reinterpret_cast<uintptr_t>(base) % 64) % 64;
    const TensorView views[] = {{hidden, MOERT_DTYPE_BF16, {tokens, kHidden}},
                                {ids, MOERT_DTYPE_I32, {tokens, kTopK}},
                                {weights, MOERT_DTYPE_F32, {tokens, kTopK}},
                                {out, MOERT_DTYPE_BF16, {tokens, kHidden}}};
    moert_experts_args_t args{};
    args.struct_size = sizeof args;
    args.hidden = views[0];
    args.ids = views[1];
    args.weights = views[2];
    args.out = views[3];
    args.workspace = base;
    args.workspace_bytes = bytes;
    expect(experts_.forward(self_, &args, &error_), error_);
  }

 private:
  void load() {
    const std::vector<uint16_t> numbers = random_bf16(kHidden * kIntermediate, 5);
    const std::vector<unsigned char> scales(kHidden * kIntermediate / 32, 120);
    const auto start = Clock::now();
    for (int64_t expert = 0; expert < kExperts; ++expert) {
      for (uint32_t part : {MOERT_PART_GATE, MOERT_PART_UP, MOERT_PART_DOWN}) {
        const bool down = part == MOERT_PART_DOWN;
        const int64_t rows = down ? kHidden : kIntermediate;
        const int64_t cols = down ? kIntermediate : kHidden;
        const TensorView scale(static_cast<const void*>(scales.data()), MOERT_DTYPE_F8_E8M0,
                               {rows, cols / 32});
        TensorView tensor(static_cast<const void*>(numbers.data()),
                          format_.codes ? MOERT_DTYPE_F4_E2M1 : MOERT_DTYPE_BF16, {rows, cols});
        moert_quant_view_t view{};
        view.struct_size = sizeof view;
        view.scheme = format_.scheme;
        view.layout = "canonical";
        if (format_.codes) view.scale = scale;
        tensor.set_quant(&view);
        moert_piece_t piece{};
        piece.struct_size = sizeof piece;
        piece.expert = expert;
        piece.part = part;
        piece.tensor = tensor;
        piece.quant = &quant_;
        piece.quant_self = quant_self_;
        expect(experts_.load(self_, &piece, &error_), error_);
      }
    }
    load_seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
    expect(experts_.finish(self_, &error_), error_);
  }

  const Format format_;
  const moert_routed_experts_t& experts_;
  const moert_quant_method_t& quant_;
  moert_error_t error_{};
  void* self_ = nullptr;
  void* quant_self_ = nullptr;
  double load_seconds_ = 0;
};

// The one that was asked for last; two would be a gigabyte.
Layer& layer(int64_t format) {
  static std::unique_ptr<Layer> it;
  static int64_t loaded = -1;
  if (loaded != format) {
    it.reset();
    it = std::make_unique<Layer>(kFormats[format]);
    loaded = format;
  }
  return *it;
}

// Rows with random experts. Few tokens deal from a shuffled deck, so that an expert comes again only when all
// others were read.
struct Batches {
  int64_t tokens;
  std::vector<uint16_t> hidden;
  std::vector<std::vector<int32_t>> ids;
  std::vector<double> distinct;
  std::vector<float> weights;

  explicit Batches(int64_t count) : tokens(count), hidden(random_bf16(count * kHidden, 7)) {
    std::mt19937_64 random(11);
    std::vector<int32_t> deck(kExperts);
    std::iota(deck.begin(), deck.end(), 0);
    size_t at = deck.size();
    for (int batch = 0; batch < 16; ++batch) {
      std::vector<int32_t> chosen;
      for (int64_t t = 0; t < tokens; ++t) {
        if (tokens > 1 || at + kTopK > deck.size()) {
          std::shuffle(deck.begin(), deck.end(), random);
          at = 0;
        }
        chosen.insert(chosen.end(), deck.begin() + static_cast<std::ptrdiff_t>(at),
                      deck.begin() + static_cast<std::ptrdiff_t>(at + kTopK));
        at += kTopK;
      }
      std::vector<int32_t> sorted = chosen;
      std::sort(sorted.begin(), sorted.end());
      distinct.push_back(
          static_cast<double>(std::unique(sorted.begin(), sorted.end()) - sorted.begin()));
      ids.push_back(std::move(chosen));
    }
    weights.assign(static_cast<size_t>(tokens * kTopK), 1.0f / kTopK);
  }
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

void forward(benchmark::State& state) {
  const int64_t tokens = state.range(1);
  Layer& experts = layer(state.range(0));
  const double bytes = kWeightsOfExpert * kFormats[state.range(0)].bytes;
  state.SetLabel(kFormats[state.range(0)].scheme);
  Batches batches(tokens);
  std::vector<uint16_t> out(static_cast<size_t>(tokens * kHidden));
  std::vector<unsigned char> workspace;
  std::vector<double> rates, seconds;
  const auto run = [&](size_t i) {
    const size_t batch = i % batches.ids.size();
    const auto start = Clock::now();
    experts.forward(tokens, batches.hidden.data(), batches.ids[batch].data(),
                    batches.weights.data(), out.data(), &workspace);
    const double time = std::chrono::duration<double>(Clock::now() - start).count();
    seconds.push_back(time);
    rates.push_back(batches.distinct[batch] * bytes / time);
    return time;
  };
  for (size_t i = 0; i < 4; ++i) run(i);
  seconds.clear();
  rates.clear();
  moert::bench::MachineLimits limits(session().host());
  const double before = limits.read_bytes_per_second();
  const double peak_before = limits.bf16_flop_per_second();
  size_t i = 0;
  for (auto _ : state) state.SetIterationTime(run(i++));
  const double bandwidth = (before + limits.read_bytes_per_second()) / 2;
  const double peak = (peak_before + limits.bf16_flop_per_second()) / 2;
  const double flop = 6.0 * kHidden * kIntermediate * kTopK * static_cast<double>(tokens);
  const double rate = flop / median(seconds);
  state.counters["ms"] = median(seconds) * 1e3;
  state.counters["GB/s"] = median(rates) / 1e9;
  state.counters["probe_GB/s"] = bandwidth / 1e9;
  state.counters["of_probe"] = median(rates) / bandwidth;
  state.counters["GFLOP/s"] = rate / 1e9;
  state.counters["peak_GFLOP/s"] = peak / 1e9;
  state.counters["of_peak"] = peak > 0 ? rate / peak : 0;
}
BENCHMARK(forward)
    ->ArgsProduct({{0, 1}, {1, 4, 32, 128, 512}})
    ->ArgNames({"format", "tokens"})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

// Packing by one thread, into memory that the process has had before: what loading costs beside reading the file.
void load(benchmark::State& state) {
  layer(1 - state.range(0));  // makes the last one go
  const double seconds = layer(state.range(0)).load_seconds();
  for (auto _ : state) state.SetIterationTime(seconds);
  state.SetLabel(kFormats[state.range(0)].scheme);
  state.counters["GB/s"] =
      kExperts * kWeightsOfExpert * kFormats[state.range(0)].bytes / seconds / 1e9;
}
BENCHMARK(load)->Arg(0)->Arg(1)->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
