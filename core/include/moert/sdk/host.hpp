// The host's services in C++.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <moert/abi/host.h>
#include <moert/sdk/error.hpp>

namespace moert {

// A copyable handle; valid as long as the plugin is initialised. All methods: any thread.
class Host {
 public:
  explicit Host(const moert_host_t* host) : host_(host) {
    if (host == nullptr) throw PluginError(MOERT_INVALID_ARGUMENT, "the host table is missing");
  }
  const moert_host_t* get() const { return host_; }

  void log(int32_t level, const std::string& message) const {
    host_->log(host_->ctx, level, "", 0, message.c_str());
  }
  int32_t num_threads() const { return host_->num_threads(host_->ctx); }

  // body(begin, end, worker) over ranges that cover [0, n). The first exception is thrown on.
  template <class Body>
  void parallel_for(int64_t n, int64_t grain, Body&& body) const;

  struct Free {
    const moert_host_t* host;
    void operator()(void* p) const { host->free(host->ctx, p); }
  };
  template <class T>
  using Array = std::unique_ptr<T[], Free>;

  // Host memory, 64-byte aligned, contents undefined. Throws MOERT_RESOURCE_EXHAUSTED.
  template <class T>
  Array<T> alloc(uint64_t count, const char* purpose) const {
    if (count > UINT64_MAX / sizeof(T)) exhausted(count, purpose);
    void* p = host_->alloc(host_->ctx, count * sizeof(T), 64);
    if (p == nullptr && count != 0) exhausted(count * sizeof(T), purpose);
    return Array<T>(static_cast<T*>(p), Free{host_});
  }

 private:
  [[noreturn]] static void exhausted(uint64_t bytes, const char* purpose) {
    throw PluginError(MOERT_RESOURCE_EXHAUSTED,
                      "no memory: " + std::to_string(bytes) + " bytes for " + purpose);
  }
  const moert_host_t* host_;
};

namespace detail {

// One parallel_for: carries the body over the C border and its first error back.
template <class Body>
struct ParallelCall {
  Body& body;
  moert_error_t error{};
  int32_t failed = 0;

  static void run(void* arg, int64_t begin, int64_t end, int32_t worker) {
    auto* call = static_cast<ParallelCall*>(arg);
    moert_error_t error{};
    error.struct_size = sizeof error;
    const moert_code_t code =
        guarded(&error, "parallel_for", [&] { call->body(begin, end, worker); });
    int32_t none = 0;
    if (code != MOERT_OK && __atomic_compare_exchange_n(&call->failed, &none, 1, false,
                                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
      call->error = error;
  }
};

}  // namespace detail

template <class Body>
void Host::parallel_for(int64_t n, int64_t grain, Body&& body) const {
  detail::ParallelCall<std::remove_reference_t<Body>> call{body};
  host_->parallel_for(host_->ctx, n, grain, &call.run, &call);
  if (call.failed != 0) throw PluginError(call.error.code, call.error.message);
}

}  // namespace moert
