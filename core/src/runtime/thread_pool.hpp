// The one pool of worker threads; plugins reach it as the host's parallel_for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace moert::runtime {

// Runs loops over disjoint ranges on `threads` workers, the caller being worker 0. Loops from several
// callers run one after another.
class ThreadPool {
 public:
  using Body = void (*)(void* arg, int64_t begin, int64_t end, int32_t worker);

  // 0: as many as processors this process may use. Throws Error(device) if one cannot be started.
  explicit ThreadPool(int32_t threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int32_t size() const { return static_cast<int32_t>(workers_.size()) + 1; }
  // Contract: moert_host.parallel_for. A loop of one range runs on the caller alone.
  void run(int64_t n, int64_t grain, Body body, void* arg);

 private:
  struct Loop {
    Body body = nullptr;
    void* arg = nullptr;
    int64_t n = 0, grain = 1, next = 0;
  };
  void work(int32_t worker);
  void stop();
  void take_ranges(int32_t worker, std::unique_lock<std::mutex>& lock);

  std::mutex callers_;  // one loop at a time
  std::mutex mutex_;    // guards the members below
  std::condition_variable wake_, done_;
  Loop loop_;
  uint64_t round_ = 0;
  int32_t busy_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace moert::runtime
