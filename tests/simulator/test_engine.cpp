// The engine: barriers, warp operations, shared memory, copies.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "../../plugins/gpu/port.cuh"

namespace {

using namespace moert;
using namespace moert::gpu;

// Runs the rest of the test in a given order.
class SimulatorEngine : public testing::Test {
 public:
  ~SimulatorEngine() override { sim::set_seed(before_); }

 private:
  uint64_t before_ = sim::seed();
};

template <int W>
void sum_kernel(const int32_t* in, int32_t* out) {
  auto* sums = reinterpret_cast<int32_t*>(shared());
  int32_t v = in[block_x() * threads() + thread()];
  for (int step = W / 2; step > 0; step /= 2) v += shuffle_xor<W>(v, step);
  if (thread() % W == 0) sums[thread() / W] = v;
  sync_block();
  if (thread() != 0) return;
  int32_t total = 0;
  for (int i = 0; i < threads() / W; ++i) total += sums[i];
  out[block_x()] = total;
}

TEST_F(SimulatorEngine, SumsOfBlocksInAnyOrder) {
  std::vector<int32_t> in(5 * 256);
  std::iota(in.begin(), in.end(), 0);
  for (const uint64_t seed : {0, 1, 2, 3}) {
    sim::set_seed(seed);
    for (const int warp : {32, 64}) {
      std::vector<int32_t> out(5, -1);
      const uint32_t bytes = static_cast<uint32_t>(256 / warp * 4);
      sim::run_now(warp, warp == 32 ? sum_kernel<32> : sum_kernel<64>, {5, 1}, 256, bytes,
                   in.data(), out.data());
      for (size_t b = 0; b < 5; ++b) EXPECT_EQ(out[b], 256 * 256 * static_cast<int>(b) + 255 * 128);
    }
  }
}

struct Places {
  int32_t* at;  // [blocks_y][blocks_x][threads]
};
void places_kernel(Places out) {
  const int block = block_y() * blocks_x() + block_x();
  out.at[block * threads() + thread()] = (blocks_y() * 1000 + block) * 1000 + thread();
}

TEST_F(SimulatorEngine, EveryThreadOfEveryBlockOnce) {
  std::vector<int32_t> at(7 * 3 * 64, -1);
  sim::run_now(32, places_kernel, {7, 3}, 64, 0, Places{at.data()});
  for (int32_t i = 0; i < 7 * 3 * 64; ++i)
    EXPECT_EQ(at[static_cast<size_t>(i)], (3000 + i / 64) * 1000 + i % 64);
}

struct Exchanged {
  int32_t from, across, above;
  double wide;
  uint64_t votes;
};

template <int W>
void exchange_kernel(Exchanged* out) {
  const int lane = thread() % W;
  Exchanged mine;
  mine.from = shuffle<W>(thread() * 10, (lane * 5 + 1) % W);
  mine.across = shuffle_xor<W>(thread() * 10, 9);
  mine.above = shuffle_up<W>(thread() * 10, 3);
  mine.wide = shuffle<W>(thread() + 0.125, W - 1);
  sync_warp<W>();
  mine.votes = ballot<W>(lane % 3 == 0);
  out[thread()] = mine;
}

// Whether every lane got what the one that it named has.
template <int W>
testing::AssertionResult exchanges() {
  std::vector<Exchanged> out(2 * W);
  sim::run_now(W, exchange_kernel<W>, {1, 1}, 2 * W, 0, out.data());
  uint64_t votes = 0;
  for (int lane = 0; lane < W; lane += 3) votes |= uint64_t{1} << lane;
  for (int t = 0; t < 2 * W; ++t) {
    const int lane = t % W, first = t - lane;
    const Exchanged& got = out[static_cast<size_t>(t)];
    if (got.from != (first + (lane * 5 + 1) % W) * 10 || got.across != (first + (lane ^ 9)) * 10 ||
        got.above != (lane < 3 ? t : t - 3) * 10 || got.wide != first + W - 1 + 0.125 ||
        got.votes != votes)
      return testing::AssertionFailure()
             << "thread " << t << ": from " << got.from << ", across " << got.across << ", above "
             << got.above << ", wide " << got.wide << ", votes " << got.votes;
  }
  return testing::AssertionSuccess();
}

TEST_F(SimulatorEngine, LanesExchange) {
  EXPECT_TRUE(exchanges<32>());
  EXPECT_TRUE(exchanges<64>());
}

struct Counters {
  int32_t sum, most;
  uint32_t sum_u, most_u;
  uint64_t sum_l;
};
void atomics_kernel(Counters* counters, int32_t* tickets) {
  tickets[atomic_add(&counters->sum, 1)] = thread();
  atomic_max(&counters->most, (thread() * 7) % 101 - 50);
  atomic_add(&counters->sum_u, 2u);
  atomic_max(&counters->most_u, static_cast<uint32_t>(thread() * 7 % 101));
  atomic_add(&counters->sum_l, uint64_t{1} << 33);
}

TEST_F(SimulatorEngine, Atomics) {
  Counters counters = {0, -100, 0, 0, 0};
  std::vector<int32_t> tickets(128, -1);
  sim::run_now(32, atomics_kernel, {1, 1}, 128, 0, &counters, tickets.data());
  EXPECT_EQ(counters.sum, 128);
  EXPECT_EQ(counters.most, 50);
  EXPECT_EQ(counters.sum_u, 256u);
  EXPECT_EQ(counters.most_u, 100u);
  EXPECT_EQ(counters.sum_l, uint64_t{128} << 33);
  EXPECT_FALSE(std::is_sorted(tickets.begin(), tickets.end()))
      << "lanes ran in order in spite of the seed";
  std::sort(tickets.begin(), tickets.end());
  for (int i = 0; i < 128; ++i) EXPECT_EQ(tickets[static_cast<size_t>(i)], i);
  sim::set_seed(0);
  counters.sum = 0;
  sim::run_now(32, atomics_kernel, {1, 1}, 128, 0, &counters, tickets.data());
  EXPECT_TRUE(std::is_sorted(tickets.begin(), tickets.end())) << "seed 0 is in order";
}

void read_shared_kernel(float* out) {
  auto* numbers = reinterpret_cast<float*>(shared());
  out[block_x() * threads() + thread()] = numbers[thread()];
  numbers[thread()] = 1;
}

TEST_F(SimulatorEngine, SharedMemoryIsPoisonedBeforeEachBlock) {
  std::vector<float> out(3 * 32, 0);
  sim::run_now(32, read_shared_kernel, {3, 1}, 32, 32 * 4, out.data());
  for (const float v : out) EXPECT_TRUE(std::isnan(v));
}

// Each thread writes one number and reads that of a thread `apart` before it.
enum class Fence { none, warp, block };
struct Neighbours {
  Fence fence;
  int apart;
  float* out;
};
void neighbours_kernel(Neighbours of) {
  auto* numbers = reinterpret_cast<float*>(shared());
  numbers[thread()] = static_cast<float>(thread());
  if (of.fence == Fence::warp) sync_warp<32>();
  if (of.fence == Fence::block) sync_block();
  of.out[thread()] = numbers[(thread() + threads() - of.apart) % threads()];
}

// How many of 20 orders give a wrong result.
int wrong_orders(Fence fence, int apart) {
  int wrong = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    sim::set_seed(seed);
    std::vector<float> out(128);
    sim::run_now(32, neighbours_kernel, {1, 1}, 128, 128 * 4, Neighbours{fence, apart, out.data()});
    bool right = true;
    for (int t = 0; t < 128; ++t)
      right &= out[static_cast<size_t>(t)] == static_cast<float>((t + 128 - apart) % 128);
    wrong += right ? 0 : 1;
  }
  return wrong;
}

TEST_F(SimulatorEngine, FindsMissingFences) {
  EXPECT_EQ(wrong_orders(Fence::none, 1), 20);
  EXPECT_EQ(wrong_orders(Fence::block, 1), 0);
  EXPECT_EQ(wrong_orders(Fence::warp, 32), 20) << "the other warp is not waited for";
  EXPECT_EQ(wrong_orders(Fence::block, 32), 0);
}

// Rows of 16 bytes through two buffers; `late` copies may still be on their way when a row is read.
template <int kLate>
void pipeline_kernel(const Word16* in, Word16* out, int rows) {
  auto* buffers = reinterpret_cast<Word16*>(shared());
  const int n = threads();
  copy16(&buffers[thread()], &in[thread()], true);
  copy_commit();
  for (int row = 0; row < rows; ++row) {
    const bool more = row + 1 < rows;
    copy16(&buffers[(row + 1) % 2 * n + thread()], more ? &in[(row + 1) * n + thread()] : nullptr,
           more);
    copy_commit();
    copy_wait<kLate>();
    sync_block();
    out[row * n + thread()] = buffers[row % 2 * n + (thread() + 1) % n];
    sync_block();
  }
}

int wrong_words(void (*kernel)(const Word16*, Word16*, int)) {
  constexpr int kThreads = 64, kRows = 5;
  std::vector<Word16> in(kThreads * kRows), out(kThreads * kRows);
  for (size_t i = 0; i < in.size(); ++i) in[i].part[0] = in[i].part[3] = static_cast<uint32_t>(i);
  sim::run_now(32, kernel, {1, 1}, kThreads, 2 * kThreads * 16, in.data(), out.data(), kRows);
  int wrong = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    const uint32_t expected =
        static_cast<uint32_t>(i / kThreads * kThreads + (i % kThreads + 1) % kThreads);
    wrong += out[i].part[0] == expected && out[i].part[3] == expected ? 0 : 1;
  }
  return wrong;
}

TEST_F(SimulatorEngine, CopiesArriveNoSoonerThanTheyMust) {
  EXPECT_EQ(wrong_words(pipeline_kernel<0>), 0);
  EXPECT_EQ(wrong_words(pipeline_kernel<1>), 0);
  EXPECT_EQ(wrong_words(pipeline_kernel<2>), 64 * 5) << "a wait that lets the needed group pass";
}

void invalid_copy_kernel(uint32_t* out) {
  copy16(shared(), nullptr, false);
  copy_commit();
  copy16(shared() + 16, nullptr, false);  // of no group: nothing waits for it
  copy_wait<0>();
  std::memcpy(out, shared(), 32);
}

TEST_F(SimulatorEngine, CopiesThatAreNotValidGiveZeros) {
  std::vector<uint32_t> out(8, 7);
  sim::run_now(32, invalid_copy_kernel, {1, 1}, 32, 32, out.data());
  EXPECT_EQ(out, (std::vector<uint32_t>{0, 0, 0, 0, ~0u, ~0u, ~0u, ~0u}));
}

void functions_kernel(float* out) {
  if (thread() != 0) return;
  out[0] = exp_f32(1);
  out[1] = tanh_f32(0.5f);
  out[2] = erf_f32(0.5f);
  out[3] = fma_f32(1 + 0x1p-12f, 1 + 0x1p-12f, -1);
  const volatile float a = 1 + 0x1p-12f;
  out[4] = a * a + -1.0f;
  out[5] = static_cast<float>(exp(log(2.0)) + log1p(0.0) + tanh(0.0) + sqrt(4.0));
}

TEST_F(SimulatorEngine, FunctionsAndOneRounding) {
  std::vector<float> out(6);
  sim::run_now(64, functions_kernel, {1, 1}, 64, 0, out.data());
  EXPECT_FLOAT_EQ(out[0], 2.7182818f);
  EXPECT_FLOAT_EQ(out[1], 0.46211716f);
  EXPECT_FLOAT_EQ(out[2], 0.52049988f);
  EXPECT_EQ(out[3], 0x1p-11f + 0x1p-24f);
  EXPECT_EQ(out[4], 0x1p-11f) << "a product and a sum are rounded each";
  EXPECT_FLOAT_EQ(out[5], 4);
}

}  // namespace
