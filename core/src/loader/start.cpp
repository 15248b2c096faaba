// init and deinit of opened plugins.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>
#include <utility>

#include "loader/descriptor.hpp"
#include "loader/loader.hpp"
#include "loader/open.hpp"

namespace moert::loader {

namespace {

// Held around every init and deinit. Of the process, because the mapped libraries are: Runtimes of
// several threads share them, and entry.h promises plugins one call at a time.
std::mutex& turn() {
  static constinit std::mutex mutex;
  return mutex;
}

using Texts = std::map<std::string, std::string>;

// Why init failed; empty if it did not.
std::string start_plugin(const Plugin& plugin, const Texts& texts, const moert_host_t* host) {
  if (plugin.descriptor.init == nullptr) return {};
  std::vector<moert_kv_t> options;
  for (const auto& [key, value] : texts) options.push_back({key.c_str(), value.c_str()});
  moert_error_t error{};
  error.struct_size = sizeof error;
  moert_code_t code = MOERT_INTERNAL;
  try {
    const std::lock_guard lock(turn());
    const FloatGuard guard;
    code =
        plugin.descriptor.init(host, options.data(), static_cast<uint32_t>(options.size()), &error);
  } catch (...) {
    return "its init function threw an exception";
  }
  if (code == MOERT_OK) return {};
  error.where[sizeof error.where - 1] = '\0';
  error.message[sizeof error.message - 1] = '\0';
  const std::string place = one_line(error.where), message = one_line(error.message);
  return "its init function failed with code " + std::to_string(code) + ": " +
         (place.empty() ? "" : place + ": ") + (message.empty() ? "it gave no reason" : message);
}

void report_failure(Result& result, const Plugin& plugin, const std::string& problem,
                    const LogSink& log) {
  for (FileReport& report : result.reports) {
    if (report.outcome != Outcome::loaded || report.id != plugin.descriptor.id) continue;
    report.outcome = Outcome::failed_to_start;
    report.detail = problem;
    log(LogLevel::warn, "loader",
        report.path.string() + ": " + outcome_name(report.outcome) + ": " + problem);
  }
}

}  // namespace

void start(Result& result, const Options& options, const moert_host_t* host, const LogSink& log) {
  std::vector<Plugin> started;
  for (Plugin& plugin : result.plugins) {
    const auto found = options.plugin_options.find(plugin.descriptor.name);
    const std::string problem =
        plugin.started
            ? ""
            : start_plugin(plugin, found == options.plugin_options.end() ? Texts() : found->second,
                           host);
    if (problem.empty()) {
      plugin.started = true;
      started.push_back(std::move(plugin));
    } else {
      report_failure(result, plugin, problem, log);
    }
  }
  result.plugins = std::move(started);
}

void stop(Result& result) {
  for (auto plugin = result.plugins.rbegin(); plugin != result.plugins.rend(); ++plugin) {
    if (!std::exchange(plugin->started, false) || plugin->descriptor.deinit == nullptr) continue;
    try {
      const std::lock_guard lock(turn());
      const FloatGuard guard;
      plugin->descriptor.deinit();
    } catch (...) {  // a rule is broken, but everybody is on the way out
    }
  }
}

}  // namespace moert::loader
