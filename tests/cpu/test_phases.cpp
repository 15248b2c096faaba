// Rounds of tasks: each once, none before the last round is over, and an end whatever fails.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "../../plugins/cpu/simd/phases.hpp"
#include "cpu/rig.hpp"
#include "loader/loader.hpp"

namespace moert::cpu::simd {
namespace {

constexpr std::array<int64_t, 3> kRounds[] = {{0, 0, 0}, {0, 1, 0},      {3, 0, 5},
                                              {1, 1, 1}, {500, 70, 300}, {2, 1000, 1}};

TEST(Phases, RunEveryTaskOnceAndInTheirRounds) {
  for (const int32_t threads : {1, 2, 5, 16}) {
    runtime::HostServices services(threads, ignore_log);
    const Host host(services.table());
    for (const auto& tasks : kRounds) {
      for (int repeat = 0; repeat < 50; ++repeat) {
        std::array<std::atomic<int64_t>, 3> done{};
        std::atomic<int64_t> early{0};
        std::vector<std::atomic<int>> runs(2000);
        Phases<3>(tasks).run(host, [&](size_t phase, int64_t task, int32_t worker) {
          ASSERT_TRUE(worker >= 0 && worker < threads);
          for (size_t before = 0; before < phase; ++before)
            if (done[before] != tasks[before]) ++early;
          ++runs[static_cast<size_t>(task) + phase * 500];
          ++done[phase];
        });
        EXPECT_EQ(early, 0) << threads << " threads";
        for (size_t phase = 0; phase < 3; ++phase) EXPECT_EQ(done[phase], tasks[phase]);
        for (size_t phase = 0; phase < 3 && tasks[1] <= 500; ++phase)
          for (int64_t task = 0; task < tasks[phase]; ++task)
            EXPECT_EQ(runs[static_cast<size_t>(task) + phase * 500], 1);
      }
    }
  }
}

// Whoever waits for the task that failed must not wait for ever.
TEST(Phases, EndWithTheFirstFailure) {
  for (const int32_t threads : {1, 3}) {
    runtime::HostServices services(threads, ignore_log);
    const Host host(services.table());
    for (size_t failing = 0; failing < 3; ++failing) {
      const auto run = [&] {
        Phases<3>({20, 20, 20}).run(host, [&](size_t phase, int64_t task, int32_t) {
          if (phase == failing && task == 7) throw PluginError(MOERT_DATA_LOSS, "task 7");
          EXPECT_LE(phase, failing);
        });
      };
      EXPECT_THROW(run(), PluginError);
    }
  }
}

}  // namespace
}  // namespace moert::cpu::simd
