// `moert run`.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <moert/error.hpp>

#include "commands.hpp"
#include "instructions.hpp"
#include "outputs.hpp"
#include "progress.hpp"
#include "run_text.hpp"
#include "runtime/run.hpp"
#include "setup.hpp"
#include "signals.hpp"

namespace moert::tool {

int cmd_run(const Options& options, Console& console) {
  const LogSink log = make_log(options);
  std::error_code ignored;
  if (std::filesystem::is_directory(options.target, ignored))
    throw Error(
        Fault::usage, "a folder was given where a file of kind Run is needed", options.target,
        "write a Run for it, like those in configs/runs; `moert explain` and `moert model inspect` "
        "take a folder as it is");
  const spec::Run run = config::read_run(options.target, overrides(options));
  check_outputs(run, options.target);
  const config::Families families = load_families(options);
  runtime::Session session(session_options(options, log, run.threads));
  require_named_plugins(session);
  require_instructions(options, session);
  require_backend(session);
  ProgressLine progress(options.quiet);
  const runtime::RunReport report = runtime::run(
      session, families, run,
      [&](uint64_t done, uint64_t total, uint64_t bytes) { progress.update(done, total, bytes); },
      throw_if_interrupted);
  progress.clear();
  if (options.json)
    print_json(console, report_json(report));
  else
    print_report(console, report);
  return report.passed ? 0 : static_cast<int>(Fault::check);
}

}  // namespace moert::tool
