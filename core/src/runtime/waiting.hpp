// Two ways of waiting for another thread: looking again and again for a short while, and sleeping.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>

namespace moert::runtime {

// `while (!there) if (!spin.again()) sleep`: about 50 us of being awake, from the first call on.
class Spin {
 public:
  explicit Spin(bool allowed) : allowed_(allowed) {}
  // After a short pause: whether to look again. False at once where it isn't allowed.
  bool again() {
    if (!allowed_) return false;
    for (int i = 0; i < 4; ++i) pause();
    const Clock::time_point now = Clock::now();
    if (end_ == Clock::time_point{}) end_ = now + kLength;
    return now < end_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kLength{50};
  // Leaves the processor's other thread, and its power, alone for some ten cycles.
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  bool allowed_;
  Clock::time_point end_{};
};

// Sleeps until woken, unless the word has another value than `expected`. May return without a reason.
inline void sleep_on(const std::atomic<uint32_t>& word, uint32_t expected) {
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}
// Change the word first, or a thread on its way to sleep is missed.
inline void wake(const std::atomic<uint32_t>& word, int32_t count) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

}  // namespace moert::runtime
