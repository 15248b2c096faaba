// Everything that is opened once per program: plugins, the registry, the host's services.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "loader/loader.hpp"
#include "registry/registry.hpp"
#include "runtime/host_services.hpp"
#include "util/log.hpp"

namespace moert::runtime {

struct SessionOptions {
  std::vector<std::string> plugin_path;  // folders or files, searched first
  std::vector<std::string> plugins;      // short names allowed; empty: all
  std::map<std::string, std::map<std::string, std::string>> plugin_options;
  int32_t threads = 0;  // 0: as many as processors
  LogSink log = ignore_log;
};

// Must outlive every model made from it. Several sessions may exist in one process.
class Session {
 public:
  // Never throws for a bad plugin: see reports(). Throws Error(usage) for a bad --plugin-path.
  explicit Session(const SessionOptions& options);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  const registry::Registry& registry() const { return registry_; }
  const std::vector<loader::FileReport>& reports() const { return loaded_.reports; }
  const std::vector<loader::Plugin>& plugins() const { return loaded_.plugins; }
  const std::vector<loader::SearchEntry>& search() const { return search_; }
  const moert_host_t* host() const { return host_.table(); }
  HostServices& services() { return host_; }
  const LogSink& log() const { return host_.log(); }

 private:
  HostServices host_;
  std::vector<loader::SearchEntry> search_;
  loader::Result loaded_;
  registry::Registry registry_;
};

}  // namespace moert::runtime
