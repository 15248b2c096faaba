// Several rounds of tasks in one loop over the host's threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <moert/sdk/host.hpp>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace moert::cpu::simd {

// Tasks go one by one to whoever is free: the host's ranges would be as good as its guess of what a task takes, and an
// expert has one row or hundreds. A task of the next phase begins when all of the last one are done.
//
// Whoever waits waits for tasks that others have begun, never for ones that nobody has: so it ends however many
// threads the host gives, one after the other too.
template <size_t N>
class Phases {
 public:
  explicit Phases(const std::array<int64_t, N>& tasks) {
    for (size_t i = 0; i < N; ++i) {
      phases_[i].tasks = tasks[i];
      phases_[i].over = tasks[i] == 0 ? 1 : 0;
    }
  }

  // task(phase, index, worker). The first exception ends the rest and is thrown on.
  template <class Task>
  void run(const Host& host, const Task& task) {
    int64_t most = 1;
    for (const Phase& phase : phases_) most = std::max(most, phase.tasks);
    host.parallel_for(std::min<int64_t>(host.num_threads(), most), 1,
                      [&](int64_t, int64_t, int32_t worker) { work(worker, task); });
  }

 private:
  struct alignas(64) Phase {
    int64_t tasks = 0;
    std::atomic<int64_t> next{0};
    alignas(64) std::atomic<int64_t> done{0};
    std::atomic<int32_t> over{0};  // 1 when all tasks are done, or somebody failed

    void end() {
      over.store(1, std::memory_order_release);
      over.notify_all();
    }
  };

  template <class Task>
  void work(int32_t worker, const Task& task) {
    try {
      for (size_t i = 0; i < N; ++i) {
        if (i > 0) wait(phases_[i - 1]);
        if (failed_.load(std::memory_order_relaxed)) return;
        Phase& phase = phases_[i];
        int64_t done = 0;
        for (int64_t t = phase.next++; t < phase.tasks; t = phase.next++, ++done)
          task(i, t, worker);
        if (done > 0 && phase.done.fetch_add(done, std::memory_order_acq_rel) + done == phase.tasks)
          phase.end();
      }
    } catch (...) {
      failed_.store(true, std::memory_order_relaxed);
      for (Phase& phase : phases_) phase.end();
      throw;
    }
  }

  // The last tasks of others take microseconds; longer only if a thread lost its processor, which this one then
  // had better not keep busy.
  static void wait(const Phase& phase) {
    constexpr int kSpins = 256;
    for (int spins = 0; spins < kSpins; ++spins) {
      if (phase.over.load(std::memory_order_acquire) != 0) return;
      pause();
    }
    phase.over.wait(0, std::memory_order_acquire);
  }
  static void pause() {
#if defined(__x86_64__)
    _mm_pause();
#endif
  }

  std::array<Phase, N> phases_;
  std::atomic<bool> failed_{false};
};

}  // namespace moert::cpu::simd
