// SPDX-License-Identifier: Apache-2.0
#include "setup.hpp"

#include <stdlib.h>

#include <charconv>
#include <filesystem>
#include <sstream>

#include <moert/abi/device.h>
#include <moert/error.hpp>

#include "environment.hpp"
#include "observe/log.hpp"
#include "runtime/explain.hpp"
#include "util/nearest.hpp"

namespace moert::tool {
namespace fs = std::filesystem;

namespace {

std::string log_filter(const Options& options) {
  if (!options.log.empty()) return options.log;
  if (options.quiet) return "error";
  if (options.verbose > 0)
    return options.verbose == 1 ? "info" : options.verbose == 2 ? "debug" : "trace";
  const std::string set = variable("MOERT_LOG");
  return set.empty() ? "warn" : set;
}

void warn_of_unknown_variables(const LogSink& log) {
  std::vector<std::string> names;
  for (const KnownVariable& known : known_variables()) names.emplace_back(known.name);
  for (const Variable& seen : moert_variables())
    if (!seen.known)
      log(LogLevel::warn, "run",
          "the environment variable " + seen.name +
              " is unknown to moert itself, a plugin may read it: " + suggestion(seen.name, names));
}

// The flag's value, or the variable's, and which it was.
std::pair<std::string, std::string> flag_or_variable(const std::string& flag, const char* flag_name,
                                                     const char* variable_name) {
  if (!flag.empty()) return {flag, flag_name};
  return {variable(variable_name), variable_name};
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> words;
  std::stringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');)
    if (!word.empty()) words.push_back(word);
  return words;
}

}  // namespace

LogSink make_log(const Options& options) {
  observe::LogSettings settings;
  settings.filter = log_filter(options);
  settings.file = flag_or_variable(options.log_file, "--log-file", "MOERT_LOG_FILE").first;
  LogSink log = observe::make_sink(settings);
  warn_of_unknown_variables(log);
  return log;
}

std::vector<config::Override> overrides(const Options& options) {
  std::vector<config::Override> list;
  const auto add = [&](const char* key, const std::string& value, const char* source) {
    if (!value.empty()) list.push_back({key, value, source});
  };
  add("device", variable("MOERT_DEVICE"), "MOERT_DEVICE");
  add("threads", variable("MOERT_NUM_THREADS"), "MOERT_NUM_THREADS");
  for (const std::string& text : options.set) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      throw Error(Fault::usage, "'" + text + "' is no setting", "--set",
                  "write key=value, as in: --set layers.router=cpu.ref");
    const std::string key = text.substr(0, equals);
    if (text.find_first_not_of(" \t", equals + 1) == std::string::npos)
      throw Error(Fault::usage, "nothing stands after '=' in '" + text + "'", "--set",
                  "write " + key + "=null to take the key out, so that its default applies");
    list.push_back({key, text.substr(equals + 1), "--set"});
  }
  add("device", options.device, "--device");
  add("threads", options.threads, "--threads");
  add("replay", options.replay, "--replay");
  if (options.verify) list.push_back({"verify", "true", "--verify"});
  return list;
}

int64_t threads_of(const Options& options) {
  const auto [text, source] = flag_or_variable(options.threads, "--threads", "MOERT_NUM_THREADS");
  if (text.empty()) return 0;
  int64_t threads = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), threads);
  if (error != std::errc() || at != text.data() + text.size() || threads < 0 || threads > 4096)
    throw Error(Fault::usage, "'" + text + "' is no number of threads", source,
                "give a number from 0 (as many as processors) to 4096");
  return threads;
}

std::string device_of(const Options& options, const char* otherwise) {
  const std::string device = flag_or_variable(options.device, "--device", "MOERT_DEVICE").first;
  return device.empty() ? otherwise : device;
}

runtime::SessionOptions session_options(const Options& options, const LogSink& log,
                                        int64_t threads) {
  runtime::SessionOptions session;
  session.plugin_path = options.plugin_path;
  session.plugins =
      split_list(flag_or_variable(options.plugins, "--plugins", "MOERT_PLUGINS").first);
  session.threads = static_cast<int32_t>(threads);
  // A plugin sees the variable alone. There are no other threads yet.
  if (!options.cpu_isa.empty()) ::setenv("MOERT_CPU_ISA", options.cpu_isa.c_str(), 1);
  session.log = log;
  return session;
}

void require_named_plugins(const runtime::Session& session) {
  for (const loader::FileReport& report : session.reports()) {
    if (report.origin != "--plugin-path" || report.outcome == loader::Outcome::loaded ||
        report.outcome == loader::Outcome::shadowed)
      continue;
    for (const loader::SearchEntry& entry : session.search())
      if (entry.path == report.path)
        throw Error(
            Fault::plugin,
            "the plugin could not be used: " + std::string(loader::outcome_name(report.outcome)) +
                ": " + report.detail,
            report.path.string(), "`moert plugins list --all` shows every file that was looked at");
  }
}

std::string searched_text(const runtime::Session& session) {
  std::vector<std::string> places;
  for (const loader::SearchEntry& entry : session.search()) places.push_back(entry.path.string());
  return "plugins were looked for in " + joined(places);
}

void require_backend(const runtime::Session& session) {
  if (!session.registry().candidates(MOERT_KIND_DEVICE).empty()) return;
  throw Error(Fault::refused, "no plugin offers a device: nothing can run a layer",
              searched_text(session),
              "moert.device/1: " + registry::decision_table({}) +
                  "  `moert plugins list --all` shows every file that was looked at");
}

config::Families load_families(const Options& options) {
  std::vector<fs::path> folders;
  const fs::path own = runtime::installed_families();
  std::error_code ignored;
  if (fs::is_directory(own, ignored)) folders.push_back(own);
  for (const std::string& folder : options.families) {
    if (!fs::is_directory(folder, ignored))
      throw Error(Fault::usage, "no such folder: '" + folder + "'", "--families",
                  "give a folder with family files (*.yaml)");
    folders.emplace_back(folder);
  }
  if (folders.empty())
    throw Error(Fault::usage, "the folder with the model families is missing", own.string(),
                "install it beside the program, or name one with --families DIR");
  return config::Families::load(folders);
}

}  // namespace moert::tool
