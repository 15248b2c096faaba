// SPDX-License-Identifier: Apache-2.0
#include "runtime/thread_pool.hpp"

#include <sched.h>

#include <algorithm>
#include <string>
#include <system_error>

#include <moert/error.hpp>

#include "runtime/waiting.hpp"

namespace moert::runtime {

namespace {

// Of the gate: [63:32] number of the loop, then two flags, then the workers inside.
constexpr uint64_t kOpen = uint64_t{1} << 31;
constexpr uint64_t kCallerSleeps = uint64_t{1} << 30;
constexpr uint64_t kInside = kCallerSleeps - 1;

uint32_t round_of(uint64_t gate) { return static_cast<uint32_t>(gate >> 32); }

// Whoever waits awake on the processor of the one that it waits for keeps it from its work.
bool is_here(const std::atomic<int32_t>& processor) {
  return processor.load(std::memory_order_relaxed) == ::sched_getcpu();
}

int32_t processors() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int32_t>(std::thread::hardware_concurrency()));
}

}  // namespace

ThreadPool::ThreadPool(int32_t threads) {
  const int32_t available = processors();
  const int32_t count = threads > 0 ? threads : available;
  spins_ = count <= available;
  workers_.reserve(static_cast<size_t>(count) - 1);
  try {
    for (int32_t worker = 1; worker < count; ++worker)
      workers_.emplace_back([this, worker] { work(worker); });
  } catch (const std::system_error& error) {
    stop();
    throw Error(Fault::device,
                "cannot start thread " + std::to_string(workers_.size() + 2) + " of " +
                    std::to_string(count) + ": " + error.code().message(),
                "the thread pool",
                "ask for fewer threads, or raise the limit on memory or threads");
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stopping_ = true;
  ++bell_;
  wake(bell_, INT32_MAX);
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(int64_t n, int64_t grain, Body body, void* arg) {
  if (n <= 0) return;
  grain = std::max<int64_t>(1, grain);
  if (n <= grain || workers_.empty()) {
    body(arg, 0, n, 0);
    return;
  }
  // A few ranges per worker: short enough to level out uneven rows, long enough that taking one costs
  // nothing.
  const int64_t wanted = 4 * static_cast<int64_t>(size());
  const int64_t grains = (n - 1) / grain + 1;
  const int64_t step = ((grains - 1) / wanted + 1) * grain;
  const std::lock_guard one_loop(callers_);
  open({body, arg, n, step, (n - 1) / step + 1});
  take_ranges(0);
  close();
}

void ThreadPool::open(const Loop& loop) {
  loop_ = loop;
  next_.store(0, std::memory_order_relaxed);
  caller_at_.store(::sched_getcpu(), std::memory_order_relaxed);
  gate_ = uint64_t{++round_} << 32 | kOpen;
  ++bell_;
  // Whoever counts itself a sleeper after this look finds the bell changed, and does not sleep.
  if (sleepers_ > 0)
    wake(bell_, static_cast<int32_t>(std::min<int64_t>(loop.ranges - 1, INT32_MAX)));
}

void ThreadPool::take_ranges(int32_t worker) {
  const Loop& loop = loop_;
  for (int64_t i = next_.fetch_add(1, std::memory_order_relaxed); i < loop.ranges;
       i = next_.fetch_add(1, std::memory_order_relaxed)) {
    const int64_t begin = i * loop.step;
    loop.body(loop.arg, begin, begin + std::min(loop.step, loop.n - begin), worker);
  }
}

void ThreadPool::close() {
  Spin spin(spins_);
  uint64_t gate = gate_.fetch_and(~kOpen);
  while ((gate & kInside) != 0) {
    if (!is_here(worker_at_) && spin.again()) {
      gate = gate_;
      continue;
    }
    const uint32_t gone = gone_;  // before the flag: who leaves after it changes this
    gate = gate_.fetch_or(kCallerSleeps);
    if ((gate & kInside) != 0) sleep_on(gone_, gone);
  }
}

void ThreadPool::leave() {
  const uint64_t before = gate_.fetch_sub(1);
  if ((before & kInside) != 1 || (before & kCallerSleeps) == 0) return;
  ++gone_;
  wake(gone_, 1);
}

// Whether there is a loop to work on that this worker has not been in.
bool ThreadPool::enter(uint32_t& seen) {
  uint64_t gate = gate_;
  while ((gate & kOpen) != 0 && round_of(gate) != seen) {
    if (!gate_.compare_exchange_weak(gate, gate + 1)) continue;
    seen = round_of(gate);
    worker_at_.store(::sched_getcpu(), std::memory_order_relaxed);
    return true;
  }
  return false;
}

// Waits until it has entered a loop; false: the pool goes.
bool ThreadPool::join(uint32_t& seen) {
  Spin spin(spins_);
  while (true) {
    const uint32_t bell = bell_;  // before the look: a loop that begins after it rings
    if (stopping_) return false;
    if (enter(seen)) return true;
    if (!is_here(caller_at_) && spin.again()) continue;
    ++sleepers_;
    sleep_on(bell_, bell);
    --sleepers_;
    spin = Spin(spins_);
  }
}

void ThreadPool::work(int32_t worker) {
  for (uint32_t seen = 0; join(seen); leave()) take_ranges(worker);
}

}  // namespace moert::runtime
