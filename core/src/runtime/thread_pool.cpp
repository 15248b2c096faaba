// SPDX-License-Identifier: Apache-2.0
#include "runtime/thread_pool.hpp"

#include <sched.h>

#include <algorithm>
#include <string>
#include <system_error>

#include <moert/error.hpp>

namespace moert::runtime {

namespace {

int32_t processors() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int32_t>(std::thread::hardware_concurrency()));
}

}  // namespace

ThreadPool::ThreadPool(int32_t threads) {
  const int32_t count = threads > 0 ? threads : processors();
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
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(int64_t n, int64_t grain, Body body, void* arg) {
  if (n <= 0) return;
  grain = std::max<int64_t>(1, grain);
  if (n <= grain || workers_.empty()) {
    body(arg, 0, n, 0);
    return;
  }
  const std::lock_guard one_loop(callers_);
  std::unique_lock lock(mutex_);
  loop_ = {body, arg, n, grain, 0};
  ++round_;
  wake_.notify_all();
  take_ranges(0, lock);
  done_.wait(lock, [this] { return busy_ == 0; });
}

void ThreadPool::take_ranges(int32_t worker, std::unique_lock<std::mutex>& lock) {
  // A few ranges per worker: short enough to level out uneven rows, long enough to keep the lock rare.
  const int64_t ranges = 4 * static_cast<int64_t>(size());
  const int64_t grains = (loop_.n + loop_.grain - 1) / loop_.grain;
  const int64_t step = std::max<int64_t>(1, (grains + ranges - 1) / ranges) * loop_.grain;
  ++busy_;
  while (loop_.next < loop_.n) {
    const int64_t begin = loop_.next;
    const int64_t end = std::min(loop_.n, begin + step);
    loop_.next = end;
    const Loop loop = loop_;
    lock.unlock();
    loop.body(loop.arg, begin, end, worker);
    lock.lock();
  }
  if (--busy_ == 0) done_.notify_all();
}

void ThreadPool::work(int32_t worker) {
  std::unique_lock lock(mutex_);
  uint64_t seen = 0;
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || round_ != seen; });
    if (stopping_) return;
    seen = round_;
    take_ranges(worker, lock);
  }
}

}  // namespace moert::runtime
