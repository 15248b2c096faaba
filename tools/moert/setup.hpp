// From options and environment to what commands work with: log, plugins, families, overrides.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"
#include "options.hpp"
#include "runtime/session.hpp"
#include "util/log.hpp"

namespace moert::tool {

// --log, else -q and -v, else MOERT_LOG, else warnings. Also warns about unknown MOERT_* variables.
LogSink make_log(const Options& options);

// What changes a Run, later ones winning: environment, --set, flags.
std::vector<config::Override> overrides(const Options& options);

// For a command that has a Run, threads are the Run's; else see threads_of().
runtime::SessionOptions session_options(const Options& options, const LogSink& log,
                                        int64_t threads);
// --threads, else MOERT_NUM_THREADS, else 0 (as many as processors).
int64_t threads_of(const Options& options);
// --device, else MOERT_DEVICE, else `otherwise`.
std::string device_of(const Options& options, const char* otherwise = "auto");

// Throws Error(plugin) if a file that --plugin-path names could not be loaded: who names a file wants
// that one.
void require_named_plugins(const runtime::Session& session);

// "plugins were looked for in A, B", for messages.
std::string searched_text(const runtime::Session& session);

// Throws Error(refused) if no plugin offers a device, so that nothing at all can run: says where plugins
// were looked for.
void require_backend(const runtime::Session& session);

// Those beside the program, and --families. Throws Error(usage) if there are none at all.
config::Families load_families(const Options& options);

}  // namespace moert::tool
