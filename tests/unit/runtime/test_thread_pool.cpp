// The pool covers every index exactly once, whatever the sizes, and survives many loops and callers.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/thread_pool.hpp"

namespace {

using moert::runtime::ThreadPool;

struct Visit {
  std::vector<std::atomic<int>> count;
  std::atomic<int> bad_worker{0};
  int32_t workers;
  int64_t grain;
  std::atomic<int> ragged{0};
  int64_t n;
};

void visit(void* arg, int64_t begin, int64_t end, int32_t worker) {
  auto& v = *static_cast<Visit*>(arg);
  if (worker < 0 || worker >= v.workers) ++v.bad_worker;
  if (end != v.n && (end - begin) % v.grain != 0) ++v.ragged;
  for (int64_t i = begin; i < end; ++i) ++v.count[static_cast<size_t>(i)];
}

struct Case {
  int32_t threads;
  int64_t n, grain;
};

class ThreadPoolCovers : public ::testing::TestWithParam<Case> {};

TEST_P(ThreadPoolCovers, EveryIndexOnce) {
  const Case& c = GetParam();
  ThreadPool pool(c.threads);
  ASSERT_EQ(pool.size(), c.threads);
  Visit v{std::vector<std::atomic<int>>(static_cast<size_t>(c.n)),
          0,
          c.threads,
          std::max<int64_t>(1, c.grain),
          0,
          c.n};
  pool.run(c.n, c.grain, &visit, &v);
  for (size_t i = 0; i < v.count.size(); ++i) ASSERT_EQ(v.count[i], 1) << "index " << i;
  EXPECT_EQ(v.bad_worker, 0);
  EXPECT_EQ(v.ragged, 0) << "a range that is no multiple of the grain";
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int32_t threads : {1, 2, 3, 7})
    for (const int64_t n : {0, 1, 2, 5, 63, 64, 1000, 4097})
      for (const int64_t grain : {0, 1, 3, 64, 5000}) all.push_back({threads, n, grain});
  all.push_back({64, 10, 1});  // more threads than ranges, and than most machines have processors
  all.push_back({64, 100000, 7});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadPoolCovers, testing::ValuesIn(cases()), [](const auto& it) {
  return "t" + std::to_string(it.param.threads) + "_n" + std::to_string(it.param.n) + "_g" +
         std::to_string(it.param.grain);
});

// Adds up the indices that it is given, without atomics: what a worker wrote must be there after the loop.
struct Sum {
  explicit Sum(const ThreadPool& pool) : of_worker(static_cast<size_t>(pool.size())) {}
  static void add(void* arg, int64_t begin, int64_t end, int32_t worker) {
    auto& sum = *static_cast<Sum*>(arg);
    for (int64_t i = begin; i < end; ++i) sum.of_worker[static_cast<size_t>(worker)] += i;
  }
  int64_t total() const { return std::accumulate(of_worker.begin(), of_worker.end(), int64_t{0}); }
  std::vector<int64_t> of_worker;
};

int64_t sum_below(int64_t n) { return n * (n - 1) / 2; }

TEST(ThreadPool, LoopsOfDifferentSizesBackToBack) {
  ThreadPool pool(2);
  std::mt19937 random(5);
  for (int round = 0; round < 10000; ++round) {
    const auto n = static_cast<int64_t>(random() % (round % 100 == 0 ? 20000 : 40));
    const auto grain = static_cast<int64_t>(random() % 4);
    Sum sum(pool);
    pool.run(n, grain, &Sum::add, &sum);
    ASSERT_EQ(sum.total(), sum_below(n)) << "round " << round << ", n " << n;
  }
}

// As a layer does: a loop of one range for each thread, in which each takes tasks until there are none.
TEST(ThreadPool, ALoopThatTheCallerEmptiesAloneDoesNotWait) {
  ThreadPool pool(4);
  for (int round = 0; round < 1000; ++round) {
    std::atomic<int64_t> next{0}, done{0};
    std::pair<std::atomic<int64_t>*, std::atomic<int64_t>*> both{&next, &done};
    pool.run(
        4, 1,
        [](void* arg, int64_t, int64_t, int32_t) {
          const auto& [tasks, counted] = *static_cast<decltype(both)*>(arg);
          while ((*tasks)++ < 10) ++*counted;
        },
        &both);
    ASSERT_EQ(done, 10);
  }
}

TEST(ThreadPool, ManyLoopsFromSeveralCallers) {
  ThreadPool pool(3);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 3; ++c)
    callers.emplace_back([&, c] {
      for (int round = 0; round < 500; ++round) {
        Sum sum(pool);
        pool.run(50 + c, 1, &Sum::add, &sum);
        if (sum.total() != sum_below(50 + c)) ++wrong;
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

// Longer than workers stay awake.
void let_sleep() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

// Both of two ranges wait for the other, so the loop ends only if the worker comes.
TEST(ThreadPool, ASleepingWorkerWakes) {
  ThreadPool pool(2);
  for (int round = 0; round < 20; ++round) {
    if (round % 2 == 0) let_sleep();
    std::atomic<int> here{0};
    pool.run(
        2, 1,
        [](void* arg, int64_t, int64_t, int32_t) {
          auto& count = *static_cast<std::atomic<int>*>(arg);
          ++count;
          while (count < 2) std::this_thread::yield();
        },
        &here);
    EXPECT_EQ(here, 2);
  }
}

// The caller sleeps in the end, until the worker's long range is done.
TEST(ThreadPool, ACallerThatSleepsIsWoken) {
  ThreadPool pool(2);
  for (int round = 0; round < 10; ++round) {
    std::atomic<int> here{0};
    pool.run(
        2, 1,
        [](void* arg, int64_t, int64_t, int32_t worker) {
          auto& count = *static_cast<std::atomic<int>*>(arg);
          ++count;
          while (count < 2) std::this_thread::yield();
          if (worker != 0) let_sleep();
          ++count;
        },
        &here);
    EXPECT_EQ(here, 4);
  }
}

TEST(ThreadPool, EndsAtAnyTime) {
  for (int round = 0; round < 300; ++round) {
    ThreadPool pool(1 + round % 5);
    if (round % 3 != 0) {
      Sum sum(pool);
      pool.run(100, 1, &Sum::add, &sum);
      ASSERT_EQ(sum.total(), sum_below(100));
    }
    if (round % 30 == 1) let_sleep();
  }
}

TEST(ThreadPool, TwoPoolsOfManyThreads) {
  ThreadPool one(64), other(64);
  for (int round = 0; round < 200; ++round)
    for (ThreadPool* pool : {&one, &other}) {
      Sum sum(*pool);
      pool->run(1000, 1, &Sum::add, &sum);
      ASSERT_EQ(sum.total(), sum_below(1000));
    }
}

TEST(ThreadPool, ZeroThreadsMeansTheProcessorsOfThisProcess) { EXPECT_GE(ThreadPool(0).size(), 1); }

}  // namespace
