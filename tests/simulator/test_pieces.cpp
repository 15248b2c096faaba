// Grids that a toolkit does not take, and launches that are cut so that it does.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "../../plugins/gpu/kernels/pieces.cuh"
#include "machine.hpp"

namespace {

using namespace moert;
using namespace moert::gpu;
using sim::test::add_kernel;
using sim::test::DeviceMemory;
using sim::test::refusal;
using sim::test::StreamOf;

constexpr int kThreads = 64;

// How often each block was there, and in launches of how many.
void visit_kernel(int64_t first, int32_t* visits, int32_t* most_blocks) {
  if (thread() != 0) return;
  atomic_add(visits + (first + block_x()) * blocks_y() + block_y(), 1);
  atomic_max(most_blocks, int32_t{blocks_x()});
}

class SimulatorPieces : public sim::test::Machine {
 protected:
  // The most blocks of one launch; each block of them all must have been there once.
  static int32_t visit_all(Blocks blocks) {
    load_kernels();
    const auto count = static_cast<size_t>(blocks.x * blocks.y);
    const DeviceMemory memory((count + 1) * 4);
    const StreamOf stream;
    fill(stream, memory.numbers(), 0, (count + 1) * 4);
    launch_blocks<visit_kernel>(blocks, kThreads, 0, stream, memory.numbers(),
                                memory.numbers() + count);
    std::vector<int32_t> visits(count + 1);
    copy_to_host(stream, visits.data(), memory.numbers(), (count + 1) * 4);
    const int32_t most = visits.back();
    visits.pop_back();
    EXPECT_EQ(std::count(visits.begin(), visits.end(), 1), static_cast<int64_t>(count));
    return most;
  }
};

TEST_F(SimulatorPieces, AGridOfTooManyThreadsIsRefused) {
  const DeviceMemory memory(4);
  const StreamOf stream;
  const std::string text = refusal(MOERT_INTERNAL, [&] {
    launch<add_kernel>({1u << 26, 1}, kThreads, 0, stream, memory.numbers(), 1);
  });
  EXPECT_EQ(
      text.find("sim32 error 9: a kernel with 67108864 blocks of 64 threads, where a grid has "
                "4294967295 threads along x at most, cannot be launched"),
      0u)
      << text;
}

TEST_F(SimulatorPieces, EveryBlockIsThereOnce) {
  EXPECT_EQ(visit_all({33, 2}), 33);
  EXPECT_EQ(visit_all({0}), 0);
  set("MOERT_SIM_GRID_THREADS", "1024");
  EXPECT_EQ(most_grid_threads(), 1024);
  EXPECT_EQ(visit_all({16}), 16);
  EXPECT_EQ(visit_all({17, 3}), 16);
  EXPECT_EQ(visit_all({33}), 16);
}

TEST_F(SimulatorPieces, TheLimitHasALeast) {
  set("MOERT_SIM_GRID_THREADS", "255");
  EXPECT_NE(refusal(MOERT_INVALID_ARGUMENT, [] { most_grid_threads(); })
                .find("MOERT_SIM_GRID_THREADS='255' is not a number from 256 up to 4294967295"),
            std::string::npos);
}

}  // namespace
