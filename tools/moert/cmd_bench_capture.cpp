// `moert bench capture`: what capturing costs, beside layers that compute nothing.
// SPDX-License-Identifier: Apache-2.0
#include <sched.h>

#include <algorithm>
#include <array>

#include <moert/sdk/dtypes.hpp>

#include "bench_checkpoint.hpp"
#include "commands.hpp"
#include "instructions.hpp"
#include "measurements.hpp"
#include "runtime/step.hpp"
#include "setup.hpp"
#include "signals.hpp"

namespace moert::tool {

namespace {

// As many layers, experts and slots as a model of 30 B parameters has.
constexpr SyntheticSize kSize = {
    .layers = 48, .experts = 128, .top_k = 8, .hidden_size = 1, .intermediate_size = 1};
constexpr int64_t kPrefill = 512;
// One percent of 512 tokens through an OLMoE layer (51.5 GFLOP) at 650 GFLOP/s.
constexpr double kPrefillTarget = 790;
constexpr int kRounds = 41, kSpoolSteps = 200;

enum Mode { plain, off, memory, kModes };

// One model, run without a step, in steps with nothing attached, and captured.
class Rig {
 public:
  Rig(const runtime::Session& session, const runtime::Model& model)
      : session_(session), model_(model), context_(model, kPrefill) {}

  // Microseconds a layer of `steps` steps.
  double run(Mode mode, int64_t tokens, int steps) {
    runtime::CaptureSet captures(session_, model_, kPrefill);
    if (mode == memory) captures.attach({"memory", {}, {"ids"}, {}});
    runtime::Step step(model_, context_, captures);
    prepare(tokens);
    if (mode == memory) one_step(step, mode, tokens);  // the first allocates
    const BenchClock::time_point start = BenchClock::now();
    for (int i = 0; i < steps; ++i) one_step(step, mode, tokens);
    return seconds_since(start) * 1e6 / static_cast<double>(steps) /
           static_cast<double>(model_.num_layers());
  }

 private:
  void prepare(int64_t tokens) {
    keys_.clear();
    for (int64_t t = 0; t < tokens; ++t) keys_.push_back({t, 0});
    const std::vector<std::byte> rows(static_cast<size_t>(tokens) *
                                      dtype_bytes(model_.dtype(), model_.spec().hidden_size));
    context_.set_hidden(rows.data(), tokens);
  }
  void one_step(runtime::Step& step, Mode mode, int64_t tokens) {
    for (capture::RowKey& key : keys_) ++key.position;
    if (mode != plain) step.begin({tokens, keys_.data(), nullptr, true});
    for (size_t layer = 0; layer < model_.num_layers(); ++layer) {
      const int32_t* forced = mode == plain ? nullptr : step.enter(layer);
      context_.forward(layer, forced);
      if (mode != plain) step.leave(layer);
    }
    if (mode != plain) step.end();
  }

  const runtime::Session& session_;
  const runtime::Model& model_;
  runtime::ForwardContext context_;
  std::vector<capture::RowKey> keys_;
};

// Modes take turns, so that a noisy moment falls on all of them.
std::array<std::vector<double>, kModes> take_turns(Rig& rig, int64_t tokens, int steps) {
  std::array<std::vector<double>, kModes> samples;
  for (int round = 0; round < kRounds; ++round) {
    throw_if_interrupted();
    for (const Mode mode : {plain, off, memory})
      samples[mode].push_back(rig.run(mode, tokens, steps));
  }
  return samples;
}

std::vector<double> differences(const std::vector<double>& with,
                                const std::vector<double>& without) {
  std::vector<double> values;
  for (size_t i = 0; i < with.size(); ++i) values.push_back(with[i] - without[i]);
  return values;
}

// This process on one processor, the capturer's writer too, until the end of the scope.
class OneProcessor {
 public:
  OneProcessor() {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(sched_getcpu()), &one);
    sched_setaffinity(0, sizeof one, &one);
  }
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;
  ~OneProcessor() { sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_{};
};

struct Spooled {
  double nanoseconds = 0;  // a token and layer
  double megabytes = 0;    // by which the process grew
};

// Rows as fast as the capturer takes them, until they are on the disk.
Spooled spool(const runtime::Session& session, const runtime::Model& model) {
  const OneProcessor one;
  runtime::ForwardContext context(model, kPrefill);
  runtime::CaptureSet captures(session, model, kPrefill);
  const runtime::AttachedCapturer& file =
      captures.attach({"file", {}, {"ids"}, {{"buffer_mb", "16"}}});
  const std::vector<std::byte> rows(kPrefill *
                                    dtype_bytes(model.dtype(), model.spec().hidden_size));
  context.set_hidden(rows.data(), kPrefill);
  context.forward(0);
  runtime::Routing routing;
  context.read_routing(0, routing, true);
  std::vector<capture::RowKey> keys(kPrefill);
  const uint64_t before = status_bytes("VmRSS");
  const BenchClock::time_point start = BenchClock::now();
  for (int i = 0; i < kSpoolSteps; ++i) {
    for (int64_t t = 0; t < kPrefill; ++t) keys[static_cast<size_t>(t)] = {t, i};
    captures.begin({kPrefill, keys.data(), nullptr, true});
    for (size_t layer = 0; layer < model.num_layers(); ++layer)
      captures.record(layer, context, &routing);
    captures.end();
  }
  captures.flush(file);
  const double seconds = seconds_since(start);
  const double pairs =
      static_cast<double>(kPrefill) * kSpoolSteps * static_cast<double>(model.num_layers());
  const double grown = static_cast<double>(status_bytes("VmRSS")) - static_cast<double>(before);
  return {seconds * 1e9 / pairs, std::max(0.0, grown) / 1e6};
}

}  // namespace

int cmd_bench_capture(const Options& options, Console& console) {
  runtime::Session session(session_options(options, make_log(options), threads_of(options)));
  require_named_plugins(session);
  require_instructions(options, session);
  const TemporaryFolder folder;
  Synthetic what = write_synthetic(folder.path(), kSize);
  runtime::Model model(session, std::move(what.model), std::move(what.rules), null_settings());
  model.load([](uint64_t, uint64_t, uint64_t) { throw_if_interrupted(); });
  Rig rig(session, model);
  const auto decode = take_turns(rig, 1, 20);
  const auto prefill = take_turns(rig, kPrefill, 1);
  std::vector<double> pace, held;
  for (int i = 0; i < 5; ++i) {
    throw_if_interrupted();
    const Spooled spooled = spool(session, model);
    pace.push_back(spooled.nanoseconds);
    held.push_back(spooled.megabytes);
  }
  return print_measurements(
      options, console,
      {measured("a layer, 1 token, without a step", "us", std::nullopt, decode[plain]),
       measured("a step with nothing attached, more by", "us", 0.1,
                differences(decode[off], decode[plain])),
       measured("the same at 512 tokens", "us", 5, differences(prefill[off], prefill[plain])),
       measured("to memory, 1 token, more by", "us", 1, differences(decode[memory], decode[plain])),
       measured("to memory, 512 tokens, more by", "us", kPrefillTarget,
                differences(prefill[memory], prefill[plain])),
       measured("to a file, a token and layer, one core", "ns", 1000, pace),
       measured("the process grows, with buffer_mb 16, by", "MB", 18,
                {*std::max_element(held.begin(), held.end())})});
}

}  // namespace moert::tool
