// `moert bench`: the runtime's own costs on this machine. Not a test: machines differ.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include <moert/error.hpp>
#include <moert/sdk/dtypes.hpp>

#include "bench_checkpoint.hpp"
#include "commands.hpp"
#include "instructions.hpp"
#include "measurements.hpp"
#include "progress.hpp"
#include "runtime/forward_context.hpp"
#include "runtime/model.hpp"
#include "setup.hpp"
#include "signals.hpp"
#include "text_table.hpp"
#include "weights/plan.hpp"

namespace moert::tool {

namespace {

using Clock = BenchClock;

constexpr int kWarmUp = 1000, kForwards = 20000;

std::vector<double> forward_microseconds(const runtime::Model& model) {
  runtime::ForwardContext context(model, 1);
  const std::vector<std::byte> row(dtype_bytes(model.dtype(), model.spec().hidden_size));
  context.set_hidden(row.data(), 1);
  std::vector<double> samples;
  samples.reserve(kForwards);
  for (int i = -kWarmUp; i < kForwards; ++i) {
    const size_t layer = static_cast<size_t>(i + kWarmUp) % model.num_layers();
    const Clock::time_point start = Clock::now();
    context.forward(layer);
    const double seconds = seconds_since(start);
    if (i >= 0) samples.push_back(seconds * 1e6);
    if (i % 1000 == 0) throw_if_interrupted();
  }
  return samples;
}

uint64_t packed_bytes(const runtime::Model& model) {
  uint64_t bytes = 0;
  for (const runtime::LayerChoice& choice : model.choices())
    for (const char* word : {"runner", "routed_experts", "shared_experts"})
      if (const runtime::KindChoice* kind = choice.find(word))
        bytes += kind->decision.support.persistent_bytes;
  return bytes;
}

// Bytes of the largest expert, packed.
uint64_t largest_expert(const runtime::Model& model) {
  uint64_t largest = 0;
  for (size_t i = 0; i < model.num_layers(); ++i) {
    const runtime::KindChoice* kind = model.choices()[i].find("routed_experts");
    if (kind == nullptr) kind = model.choices()[i].find("runner");
    largest = std::max(largest, kind->decision.support.persistent_bytes /
                                    static_cast<uint64_t>(model.layer(i).routing.num_experts));
  }
  return largest;
}

constexpr double kMegabyte = 1e6;
constexpr uint64_t kAllowance = 64'000'000;

}  // namespace

int cmd_bench_overhead(const Options& options, Console& console) {
  runtime::Session session(session_options(options, make_log(options), threads_of(options)));
  require_named_plugins(session);
  require_instructions(options, session);
  std::optional<TemporaryFolder> folder;
  Synthetic what;
  if (options.target.empty()) {
    folder.emplace();
    what = write_synthetic(folder->path(), {});
  } else {
    const config::Families families = load_families(options);
    what.model = families.resolve(options.target);
    runtime::require_supported(what.model);
    what.rules = families.tensors(what.model);
  }
  runtime::Model model(session, std::move(what.model), std::move(what.rules), null_settings());
  model.load([](uint64_t, uint64_t, uint64_t) { throw_if_interrupted(); });
  return print_measurements(
      options, console,
      {measured("cost of a layer beside its computation", "us", 2, forward_microseconds(model))});
}

int cmd_bench_plugins(const Options& options, Console& console) {
  const LogSink log = make_log(options);
  const Clock::time_point start = Clock::now();
  const runtime::Session session(session_options(options, log, threads_of(options)));
  const double first = seconds_since(start) * 1e3;
  require_named_plugins(session);
  require_instructions(options, session);
  std::vector<Measurement> list = {
      measured("find, check and open " + count_text(session.plugins().size(), "plugin"), "ms", 100,
               {first})};
  // Libraries stay mapped: a second time is not the same work.
  const Clock::time_point again = Clock::now();
  {
    const runtime::Session warm(session_options(options, log, threads_of(options)));
  }
  list.push_back(
      measured("the same again in this process", "ms", std::nullopt, {seconds_since(again) * 1e3}));
  return print_measurements(options, console, list);
}

int cmd_bench_index(const Options& options, Console& console) {
  make_log(options);
  // 50 * (1 + 3 * 667) = 100,100 tensors, by the rules of a family that has all layouts and roots.
  const config::Families families = load_families(options);
  const TemporaryFolder folder;
  Synthetic what = write_synthetic(folder.path(), {.layers = 50,
                                                   .experts = 667,
                                                   .top_k = 8,
                                                   .hidden_size = 2,
                                                   .intermediate_size = 2,
                                                   .shards = 25});
  what.model.family = "qwen3_moe";
  what.rules = families.tensors(what.model);
  std::vector<double> opened, planned, both;
  size_t tensors = 0;
  for (int i = 0; i < 5; ++i) {
    throw_if_interrupted();
    const Clock::time_point start = Clock::now();
    const weights::Checkpoint checkpoint(folder.path());
    const double open = seconds_since(start) * 1e3;
    const weights::Plan plan = weights::make_plan(what.model, what.rules, checkpoint);
    plan.require_complete(checkpoint);
    both.push_back(seconds_since(start) * 1e3);
    opened.push_back(open);
    planned.push_back(both.back() - open);
    tensors = checkpoint.tensors().size();
  }
  return print_measurements(options, console,
                            {measured("index " + count_text(tensors, "tensor"), "ms", 1000, both),
                             measured("of which: open", "ms", std::nullopt, opened),
                             measured("of which: match names and account", "ms", 100, planned)});
}

int cmd_bench_load(const Options& options, Console& console) {
  const LogSink log = make_log(options);
  const config::Families families = load_families(options);
  runtime::Session session(session_options(options, log, threads_of(options)));
  require_named_plugins(session);
  require_instructions(options, session);
  spec::Model spec = families.resolve(options.target);
  runtime::require_supported(spec);
  spec::Tensors rules = families.tensors(spec);
  runtime::ModelSettings settings;
  settings.device = device_of(options);
  if (!options.experts.empty()) settings.choice.layers["routed_experts"] = options.experts;
  runtime::Model model(session, std::move(spec), std::move(rules), settings);
  ProgressLine progress(options.quiet);
  uint64_t read = 0;
  const Clock::time_point start = Clock::now();
  model.load([&](uint64_t done, uint64_t total, uint64_t bytes) {
    read = bytes;
    progress.update(done, total, bytes);
  });
  const double seconds = seconds_since(start);
  const auto peak = static_cast<double>(status_bytes("VmHWM"));
  progress.clear();
  const uint64_t packed = packed_bytes(model);
  std::optional<double> limit;
  // An expert for each thread is held twice: as it lies in the file, and packed.
  const auto threads = static_cast<uint64_t>(session.services().pool().size());
  if (packed > 0)
    limit = static_cast<double>(packed + (threads + 1) * largest_expert(model) + kAllowance) /
            kMegabyte;
  const double gigabytes = static_cast<double>(read) / 1e9;
  return print_measurements(
      options, console,
      {measured("load " + bytes_text(read), "ms", std::nullopt, {seconds * 1e3}),
       measured("rate, of bytes in the file", "GB/s", std::nullopt,
                {seconds > 0 ? gigabytes / seconds : 0}),
       measured("packed weights", "MB", std::nullopt, {static_cast<double>(packed) / kMegabyte}),
       measured("peak memory; target: packed + an expert a thread + one + 64 MB", "MB", limit,
                {peak / kMegabyte})});
}

}  // namespace moert::tool
