// The host table that plugins are given.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/host.h>

#include "runtime/thread_pool.hpp"
#include "util/log.hpp"

namespace moert::runtime {

// Must outlive every plugin object. The table's functions: any thread.
class HostServices {
 public:
  HostServices(int32_t threads, LogSink log);
  HostServices(const HostServices&) = delete;
  HostServices& operator=(const HostServices&) = delete;

  const moert_host_t* table() const { return &table_; }
  ThreadPool& pool() { return pool_; }
  const LogSink& log() const { return log_; }

 private:
  ThreadPool pool_;
  LogSink log_;
  moert_host_t table_{};
};

}  // namespace moert::runtime
