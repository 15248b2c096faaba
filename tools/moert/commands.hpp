// The subcommands. Each prints its results on the console and returns the exit code; what went wrong
// is thrown.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "console.hpp"
#include "options.hpp"

namespace moert::tool {

using Command = int (*)(const Options&, Console&);

int cmd_run(const Options& options, Console& console);
int cmd_explain(const Options& options, Console& console);
int cmd_plugins_list(const Options& options, Console& console);
int cmd_plugins_show(const Options& options, Console& console);
int cmd_model_inspect(const Options& options, Console& console);
int cmd_model_describe(const Options& options, Console& console);
int cmd_model_list(const Options& options, Console& console);
int cmd_quantize(const Options& options, Console& console);
int cmd_capture_show(const Options& options, Console& console);
int cmd_capture_stats(const Options& options, Console& console);
int cmd_capture_diff(const Options& options, Console& console);
int cmd_capture_convert(const Options& options, Console& console);
int cmd_capture_attach(const Options& options, Console& console);
int cmd_capture_segments(const Options& options, Console& console);
int cmd_report(const Options& options, Console& console);
int cmd_env(const Options& options, Console& console);
int cmd_bench_overhead(const Options& options, Console& console);
int cmd_bench_experts(const Options& options, Console& console);
int cmd_bench_capture(const Options& options, Console& console);
int cmd_bench_plugins(const Options& options, Console& console);
int cmd_bench_index(const Options& options, Console& console);
int cmd_bench_load(const Options& options, Console& console);

}  // namespace moert::tool
