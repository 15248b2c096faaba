// `moert quantize`.
// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <limits>

#include <moert/error.hpp>

#include "commands.hpp"
#include "instructions.hpp"
#include "progress.hpp"
#include "quantize_text.hpp"
#include "runtime/quantize.hpp"
#include "setup.hpp"
#include "signals.hpp"
#include "util/nearest.hpp"

namespace moert::tool {

namespace {

constexpr uint64_t kDefaultShard = 5'000'000'000;

// "500MB"; powers of ten, as Hugging Face's tools count.
uint64_t shard_size(const std::string& text) {
  if (text.empty()) return kDefaultShard;
  uint64_t number = 0, unit = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string suffix(end, text.data() + text.size());
  for (const auto& [name, factor] :
       {std::pair<const char*, uint64_t>{"KB", 1000}, {"MB", 1'000'000}, {"GB", 1'000'000'000}})
    if (suffix == name) unit = factor;
  if (error != std::errc() || unit == 0 || number == 0 ||
      number > std::numeric_limits<uint64_t>::max() / unit)
    throw Error(Fault::usage, "'" + text + "' is no size of a file", "--shard-size",
                "give a number and KB, MB or GB, as in 500MB");
  return number * unit;
}

runtime::QuantizeJob job_of(const Options& options) {
  if (options.scheme.empty())
    throw Error(Fault::usage, "nothing says what the experts become", "--scheme",
                "give one of " + joined(runtime::target_scheme_words()));
  runtime::QuantizeJob job;
  job.source = options.target;
  job.destination = options.destination;
  job.wishes.scheme = options.scheme;
  job.wishes.exclude = options.exclude;
  if (!options.experts.empty()) job.wishes.experts = config::read_experts(options.experts);
  job.shard_bytes = shard_size(options.shard_size);
  job.hidden_states = options.hidden_states;
  job.threads = threads_of(options);
  return job;
}

}  // namespace

int cmd_quantize(const Options& options, Console& console) {
  const LogSink log = make_log(options);
  const runtime::QuantizeJob job = job_of(options);
  const config::Families families = load_families(options);
  runtime::Session session(session_options(options, log, job.threads));
  require_named_plugins(session);
  require_instructions(options, session);
  ProgressLine progress(options.quiet, "writing tensors");
  const runtime::QuantizeReport report = runtime::quantize(
      session, families, job,
      [&](uint64_t done, uint64_t total, uint64_t bytes) { progress.update(done, total, bytes); },
      throw_if_interrupted);
  progress.clear();
  if (options.json)
    print_json(console, report_json(report));
  else
    print_report(console, report);
  return 0;
}

}  // namespace moert::tool
