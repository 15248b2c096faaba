// SPDX-License-Identifier: Apache-2.0
#include "runtime/host_services.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <moert/abi/entry.h>

namespace moert::runtime {

namespace {

HostServices& self(void* ctx) { return *static_cast<HostServices*>(ctx); }

LogLevel level_of(int32_t level) {
  switch (level) {
    case MOERT_LOG_TRACE: return LogLevel::trace;
    case MOERT_LOG_DEBUG: return LogLevel::debug;
    case MOERT_LOG_INFO: return LogLevel::info;
    case MOERT_LOG_WARN: return LogLevel::warn;
    default: return LogLevel::error;
  }
}

void log_line(void* ctx, int32_t level, const char* file, int32_t line,
              const char* message) noexcept try {
  std::string text = message != nullptr ? message : "";
  if (level == MOERT_LOG_HOST_MISBEHAVING) text = "the host broke a rule: " + text;
  if (level == MOERT_LOG_PLUGIN_MISBEHAVING) text = "a plugin broke a rule: " + text;
  if (file != nullptr && file[0] != '\0')
    text += " (" + std::string(file) + ":" + std::to_string(line) + ")";
  self(ctx).log()(level_of(level), "plugin", text);
} catch (...) {  // memory is short, or the sink threw: a lost line must not end the process
}

void* allocate(void*, uint64_t bytes, uint64_t align) noexcept {
  if (bytes == 0 || (align & (align - 1)) != 0) return nullptr;
  void* p = nullptr;
  const size_t alignment = std::max<size_t>(align, sizeof(void*));
  return ::posix_memalign(&p, alignment, bytes) == 0 ? p : nullptr;
}

void release(void*, void* p) noexcept { std::free(p); }

void parallel_for(void* ctx, int64_t n, int64_t grain,
                  void (*fn)(void* arg, int64_t begin, int64_t end, int32_t worker),
                  void* arg) noexcept {
  self(ctx).pool().run(n, grain, fn, arg);
}

int32_t num_threads(void* ctx) noexcept { return self(ctx).pool().size(); }

const void* extension(void*, const char*) noexcept { return nullptr; }

}  // namespace

HostServices::HostServices(int32_t threads, LogSink log) : pool_(threads), log_(std::move(log)) {
  table_ = {sizeof table_, MOERT_ABI_MINOR, this,         &log_line, &allocate,
            &release,      &parallel_for,   &num_threads, &extension};
}

}  // namespace moert::runtime
