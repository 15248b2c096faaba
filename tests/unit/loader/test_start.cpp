// init and deinit when several owners of the same library start and stop at once.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "loader/loader.hpp"

namespace moert::loader {
namespace {

// What the plugin below saw; its functions get no context.
std::atomic<int> inside{0}, most_inside{0}, held{0}, calls{0};

void stay_a_while() {
  const int now = ++inside;
  int most = most_inside;
  while (now > most && !most_inside.compare_exchange_weak(most, now)) {
  }
  std::this_thread::sleep_for(std::chrono::microseconds(200));
  ++calls;
  --inside;
}

moert_code_t init(const moert_host_t*, const moert_kv_t*, uint32_t, moert_error_t*) {
  stay_a_while();
  ++held;
  return MOERT_OK;
}

void deinit() {
  stay_a_while();
  --held;
}

Result with_plugin() {
  Plugin plugin;
  plugin.descriptor.struct_size = sizeof plugin.descriptor;
  plugin.descriptor.id = "org.test.counted";
  plugin.descriptor.name = "counted";
  plugin.descriptor.init = &init;
  plugin.descriptor.deinit = &deinit;
  Result result;
  result.plugins.push_back(plugin);
  return result;
}

TEST(Start, CallsOfSeveralThreadsAreSerialisedAndBalanced) {
  constexpr int kThreads = 4, kTimes = 25;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([] {
      for (int time = 0; time < kTimes; ++time) {
        Result result = with_plugin();
        start(result, {}, nullptr, ignore_log);
        stop(result);
        stop(result);  // what is stopped stays stopped
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most_inside, 1) << "two calls of one library at a time";
  EXPECT_EQ(held, 0);
  EXPECT_EQ(calls, 2 * kThreads * kTimes);
}

TEST(Start, MayNest) {
  Result first = with_plugin(), second = with_plugin();
  start(first, {}, nullptr, ignore_log);
  start(second, {}, nullptr, ignore_log);
  EXPECT_EQ(held, 2);
  stop(first);  // not the reverse order
  EXPECT_EQ(held, 1);
  stop(second);
  EXPECT_EQ(held, 0);
}

}  // namespace
}  // namespace moert::loader
