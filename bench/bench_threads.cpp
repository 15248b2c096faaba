// Fork and join: what a loop on the pool costs beside its work, with pauses between loops as between the
// loops of a layer, and with work that two threads halve.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "runtime/thread_pool.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using moert::runtime::ThreadPool;

void busy(std::chrono::nanoseconds length) {
  for (const Clock::time_point end = Clock::now() + length; Clock::now() < end;) {
  }
}

struct Work {
  std::chrono::nanoseconds each;
};

void ranges(void* arg, int64_t begin, int64_t end, int32_t) {
  const Work& work = *static_cast<Work*>(arg);
  for (int64_t i = begin; i < end; ++i) busy(work.each);
}

// Medians and high percentiles of a loop of `work_us` in 16 ranges together, each after `pause_us`.
// Counters in microseconds; `ideal` is the work over the threads.
void fork_join(benchmark::State& state) {
  const auto threads = static_cast<int32_t>(state.range(0));
  const std::chrono::microseconds pause(state.range(1)), work(state.range(2));
  constexpr int64_t kRanges = 16;
  ThreadPool pool(threads);
  Work each{std::chrono::nanoseconds(work) / kRanges};
  std::vector<double> samples;
  for (auto _ : state) {
    busy(pause);
    const Clock::time_point start = Clock::now();
    pool.run(kRanges, 1, &ranges, &each);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    state.SetIterationTime(seconds);
    samples.push_back(seconds * 1e6);
  }
  std::sort(samples.begin(), samples.end());
  state.counters["median"] = samples[samples.size() / 2];
  state.counters["p90"] = samples[samples.size() * 9 / 10];
  state.counters["p99"] = samples[samples.size() * 99 / 100];
  state.counters["ideal"] = static_cast<double>(work.count()) / threads;
}

}  // namespace

// Within the time that workers stay awake, and beyond it; no work, a short loop, a third of a layer.
BENCHMARK(fork_join)
    ->ArgNames({"threads", "pause_us", "work_us"})
    ->ArgsProduct({{2}, {0, 10, 30, 200, 5000}, {0, 100, 600}})
    ->Args({8, 10, 100})
    ->UseManualTime()
    ->Iterations(1000)
    ->Unit(benchmark::kMicrosecond);

BENCHMARK_MAIN();
