// SPDX-License-Identifier: Apache-2.0
#include "runtime/session.hpp"

#include <moert/error.hpp>
#include <moert/sdk/plugin.hpp>

#include "runtime/moe_runner.hpp"

namespace moert::runtime {

namespace {

// The core's own layers are a plugin that needs no file.
const moert_plugin_t& core_plugin() {
  static constexpr moert_plugin_t plugin =
      detail::plugin_of<MoERunner>("org.moert.core", "core", "MoERT", MOERT_CORE_VERSION);
  return plugin;
}

void mark_bad(loader::Result& loaded, const loader::Plugin& plugin, const std::string& why) {
  for (loader::FileReport& report : loaded.reports)
    if (report.path == plugin.path) {
      report.outcome = loader::Outcome::bad_descriptor;
      report.detail = why;
    }
}

}  // namespace

Session::Session(const SessionOptions& options)
    : host_(options.threads, options.log),
      search_(loader::search_path(options.plugin_path, options.log)) {
  loader::Options load;
  load.search = search_;
  load.allow = options.plugins;
  load.plugin_options = options.plugin_options;
  loaded_ = loader::load(load, options.log);
  loader::start(loaded_, load, host_.table(), options.log);
  registry_.add(core_plugin(), "core", false);
  for (const loader::Plugin& plugin : loaded_.plugins) {
    try {
      registry_.add(plugin.descriptor, plugin.path.string(), plugin.third_party);
    } catch (const Error& error) {
      mark_bad(loaded_, plugin, error.problem());
      options.log(LogLevel::warn, "loader", plugin.path.string() + ": " + error.problem());
    }
  }
  registry_.freeze();
}

Session::~Session() { loader::stop(loaded_); }

}  // namespace moert::runtime
