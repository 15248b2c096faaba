// Kernels that break a rule: the process ends and says which, where, and who.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "../../plugins/gpu/port.cuh"

namespace {

using namespace moert;
using namespace moert::gpu;

using Kernel = void (*)(int32_t*);

// What is said when a kernel runs in two blocks of 64 threads, warps of 32, 64 bytes of shared memory.
void expect_death(Kernel kernel, const std::string& pattern) {
  alignas(16) int32_t out[4096] = {};
  EXPECT_DEATH(sim::run_now(32, kernel, {2, 1}, 64, 64, &out[0]), pattern);
}

std::string line(int number) { return "test_mistakes.cpp:" + std::to_string(number) + "\n"; }

constexpr int kSkipped = __LINE__ + 3;
void skipped_barrier(int32_t* out) {
  if (thread() == 40) return;
  sync_block();
  out[thread()] = 1;
}

TEST(SimulatorMistakes, BarrierThatOneThreadSkips) {
  expect_death(
      skipped_barrier,
      "sync_block is not reached by every thread\n.*in block \\([01], 0\\).*64 threads(.|\n)*"
      "threads 0-39: at sync_block .*" +
          line(kSkipped) +
          ".*thread 40: finished\n"
          ".*threads 41-63: at sync_block");
}

constexpr int kOneBarrier = __LINE__ + 3, kOtherBarrier = __LINE__ + 5;
void two_barriers(int32_t* out) {
  if (thread() < 32)
    sync_block();
  else
    sync_block();
  out[thread()] = 1;
}

TEST(SimulatorMistakes, DifferentBarriers) {
  expect_death(two_barriers,
               "threads of a block wait at different sync_block(.|\n)*threads 0-31: .*" +
                   line(kOneBarrier) + ".*threads 32-63: .*" + line(kOtherBarrier));
}

constexpr int kPartial = __LINE__ + 2;
void partial_warp(int32_t* out) {
  if (thread() % 32 < 31) out[thread()] = shuffle<32>(thread(), 0);
}

TEST(SimulatorMistakes, OperationOfPartOfAWarp) {
  expect_death(partial_warp, "not all at the same operation \\(shuffle\\)(.|\n)*at shuffle .*" +
                                 line(kPartial) + ".*finished");
}

constexpr int kXor = __LINE__ + 3, kBallot = __LINE__ + 5;
void mixed_operations(int32_t* out) {
  if (thread() % 2 == 0)
    out[thread()] = shuffle_xor<32>(thread(), 2);
  else
    out[thread()] = static_cast<int32_t>(ballot<32>(true));
}

TEST(SimulatorMistakes, DifferentOperations) {
  expect_death(mixed_operations, "not all at the same operation(.|\n)*thread 0: at shuffle_xor .*" +
                                     line(kXor) + ".*thread 1: at ballot .*" + line(kBallot));
}

void warp_and_block(int32_t* out) {
  if (thread() % 32 < 16)
    sync_warp<32>();
  else
    sync_block();
  out[thread()] = 1;
}

TEST(SimulatorMistakes, WarpOperationAgainstBarrier) {
  expect_death(warp_and_block, "not all at the same operation \\(sync_warp\\)(.|\n)*at sync_block");
}

TEST(SimulatorMistakes, WidthOfAnotherDevice) {
  expect_death([](int32_t* out) { out[0] = shuffle<64>(1, 0); },
               "another width than the device's warps");
}

TEST(SimulatorMistakes, LaneThatDoesNotExist) {
  expect_death([](int32_t* out) { out[0] = shuffle<32>(1, 32); },
               "shuffle from a lane that does not exist");
  expect_death([](int32_t* out) { out[0] = shuffle_xor<32>(1, 32); }, "shuffle_xor by a mask");
  expect_death([](int32_t* out) { out[0] = shuffle_up<32>(1, -1); }, "shuffle_up by");
}

TEST(SimulatorMistakes, SharedMemoryThatWasNotAskedFor) {
  expect_death([](int32_t*) { shared()[64] = static_cast<unsigned char>(thread()); },
               "outside of the block's shared memory|AddressSanitizer");
  expect_death([](int32_t*) { shared()[-1] = static_cast<unsigned char>(thread()); },
               "outside of the block's shared memory|AddressSanitizer");
  expect_death([](int32_t* out) { copy16(shared() + 64, out, false); },
               "copy16 to what is not .* shared memory");
  expect_death([](int32_t* out) { copy16(out, out, false); },
               "copy16 to what is not .* shared memory");
}

TEST(SimulatorMistakes, Alignment) {
  expect_death(
      [](int32_t* out) {
        out[0] = static_cast<int32_t>(load16(reinterpret_cast<char*>(out) + 2).part[0]);
      },
      "not a multiple of 16.*test_mistakes");
  expect_death(
      [](int32_t* out) {
        out[0] = static_cast<int32_t>(load4_once(reinterpret_cast<char*>(out) + 2));
      },
      "not a multiple of 4.*test_mistakes");
  expect_death([](int32_t* out) { copy16(shared() + 8, out, false); }, "not a multiple of 16");
}

constexpr int kRead = __LINE__ + 2;
void read_and_write(int32_t* out) {
  const Word16 word = load16(out);
  sync_block();
  if (thread() == 0) out[3] = static_cast<int32_t>(word.part[0]) + 1;
}
void read_plainly_and_write(int32_t* out) {
  const Word16 word = load16_plain(out);
  sync_block();
  if (thread() == 0) out[3] = static_cast<int32_t>(word.part[0]) + 1;
}

TEST(SimulatorMistakes, MemoryThatIsWrittenIsReadPlainly) {
  expect_death(
      read_and_write,
      "a block writes memory that it reads by a load for what no kernel writes, .*" + line(kRead));
  alignas(16) int32_t out[4] = {};
  sim::run_now(32, read_plainly_and_write, {1, 1}, 32, 0, &out[0]);
  EXPECT_EQ(out[3], 1);
}

TEST(SimulatorMistakes, NoKernelRuns) {
  EXPECT_DEATH(sync_block(), "test_mistakes.*outside of a kernel");
}

void nothing() {}

TEST(SimulatorMistakes, PartOfAWarpIsNoBlock) {
  EXPECT_DEATH(sim::run_now(64, nothing, {1, 1}, 96, 0), "no multiple of a warp");
}

}  // namespace
