// The one pool of worker threads; plugins reach it as the host's parallel_for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace moert::runtime {

// Runs loops over disjoint ranges on `threads` workers, the caller being worker 0. Loops from several
// callers run one after another. A worker that is not there in time is not waited for: the others take
// its ranges.
//
// A worker that waits for a loop, and a caller that waits for the last workers of one, look for it without
// pause for about 50 us and sleep then: two loops of one layer find each other awake, and an idle program
// costs nothing. Nobody does so on the processor of the one that it waits for, nor in a pool with more
// threads than the process may use processors: its threads would take the time from each other. A pool of
// one thread has nobody to wait for. A pool knows
// of no other: of two in one process, each keeps the processors awake for those 50 us after its own loops.
// Threads keep the priority and the processors that they were born with.
class ThreadPool {
 public:
  // Must not throw, nor run a loop of the same pool.
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
    int64_t n = 0, step = 1, ranges = 0;
  };
  void work(int32_t worker);
  bool join(uint32_t& seen);
  bool enter(uint32_t& seen);
  void open(const Loop& loop);
  void take_ranges(int32_t worker);
  void leave();
  void close();
  void stop();

  bool spins_ = false;
  std::vector<std::thread> workers_;
  std::mutex callers_;  // one loop at a time
  uint32_t round_ = 0;  // of it, guarded by callers_

  // The loop's number, whether workers may still come in, whether the caller sleeps until they are gone,
  // and how many are in. `loop_` is written while nobody may come in and nobody is.
  alignas(64) std::atomic<uint64_t> gate_{0};
  std::atomic<uint32_t> bell_{0};  // changes with each loop: workers sleep on it
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<uint32_t> gone_{0};  // changes when the last worker leaves a caller that sleeps
  std::atomic<bool> stopping_{false};
  // The processors of the last caller and of the last worker that came in; hints.
  std::atomic<int32_t> caller_at_{-1}, worker_at_{-1};
  Loop loop_;
  alignas(64) std::atomic<int64_t> next_{0};  // range
};

}  // namespace moert::runtime
