// The pool covers every index exactly once, whatever the sizes, and survives many loops and callers.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
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

class ThreadPoolCovers : public testing::TestWithParam<Case> {};

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

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadPoolCovers,
                         testing::Values(Case{1, 0, 1}, Case{1, 7, 1}, Case{2, 1, 1},
                                         Case{2, 1000, 1}, Case{3, 1001, 16}, Case{7, 5, 1},
                                         Case{7, 100, 100}, Case{4, 4097, 64}, Case{2, 3, 0}),
                         [](const auto& it) {
                           return "t" + std::to_string(it.param.threads) + "_n" +
                                  std::to_string(it.param.n) + "_g" +
                                  std::to_string(it.param.grain);
                         });

TEST(ThreadPool, ManyLoopsFromSeveralCallers) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 3; ++c)
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round)
        pool.run(
            50, 1,
            [](void* arg, int64_t begin, int64_t end, int32_t) {
              *static_cast<std::atomic<int64_t>*>(arg) += end - begin;
            },
            &sum);
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 3 * 200 * 50);
}

TEST(ThreadPool, ZeroThreadsMeansTheProcessorsOfThisProcess) { EXPECT_GE(ThreadPool(0).size(), 1); }

}  // namespace
