// The host's side of the border, as strict as the headers allow it to be.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/host.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

namespace moert::conformance {

// How parallel_for hands out ranges. Both are what a host may do: shuffled runs them one after the
// other in a random order on random workers, which can be repeated; threaded runs them at once.
enum class Schedule { shuffled, threaded };

// Counts memory, poisons it, and looks behind its end when it comes back.
class TestHost {
 public:
  explicit TestHost(uint64_t seed);
  ~TestHost();
  TestHost(const TestHost&) = delete;
  TestHost& operator=(const TestHost&) = delete;

  const moert_host_t* table() const { return &table_; }
  void set_schedule(Schedule schedule) { schedule_ = schedule; }
  // Blocks that were not given back.
  size_t live() const;

 private:
  static constexpr int32_t kThreads = 3;
  static void log(void*, int32_t, const char*, int32_t, const char*) {}
  static void* alloc(void* ctx, uint64_t bytes, uint64_t align);
  static void release(void* ctx, void* pointer);
  static void parallel_for(void* ctx, int64_t n, int64_t grain,
                           void (*fn)(void*, int64_t, int64_t, int32_t), void* arg);
  static int32_t num_threads(void*) { return kThreads; }
  static const void* extension(void*, const char*) { return nullptr; }

  moert_host_t table_;
  Schedule schedule_ = Schedule::shuffled;
  std::mt19937_64 random_;
  mutable std::mutex mutex_;
  std::map<void*, uint64_t> blocks_;
};

}  // namespace moert::conformance
