// The instructions' register maps against entries told by hand: from the text of PTX, and from what is known of CDNA and
// RDNA. Nothing here ran on these cards.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "../../plugins/gpu/port.cuh"

namespace {

using namespace moert;
using sim::Entry;
using sim::InstructionMap;

struct Golden {
  int lane, i;
  Entry a, b, d;  // {row, k}, {k, column}, {row, column}
};

void expect(const InstructionMap& map, const std::vector<Golden>& rows) {
  const auto same = [](Entry got, Entry wanted) {
    return got.row == wanted.row && got.column == wanted.column;
  };
  for (const Golden& row : rows) {
    EXPECT_TRUE(same(map.a(row.lane, row.i), row.a))
        << "A, lane " << row.lane << " number " << row.i;
    if (row.i < map.b_numbers) {
      EXPECT_TRUE(same(map.b(row.lane, row.i), row.b))
          << "B, lane " << row.lane << " number " << row.i;
    }
    if (row.i < map.d_numbers) {
      EXPECT_TRUE(same(map.d(row.lane, row.i), row.d))
          << "D, lane " << row.lane << " number " << row.i;
    }
  }
}

// Every entry of a matrix is in exactly one register.
void expect_whole(const InstructionMap& map, Entry (*of)(int, int), int numbers, int rows,
                  int columns) {
  std::set<std::pair<int, int>> seen;
  for (int lane = 0; lane < map.width; ++lane)
    for (int i = 0; i < numbers; ++i) {
      const Entry at = of(lane, i);
      ASSERT_TRUE(at.row >= 0 && at.row < rows && at.column >= 0 && at.column < columns)
          << lane << " " << i;
      EXPECT_TRUE(seen.emplace(at.row, at.column).second) << lane << " " << i;
    }
  EXPECT_EQ(seen.size(), static_cast<size_t>(rows * columns));
}

TEST(SimulatorInstructions, EveryEntryOnce) {
  for (const InstructionMap* map : {&sim::kMma, &sim::kMfma, &sim::kWmma}) {
    expect_whole(*map, map->a, map->a_numbers, map->m, map->k);
    expect_whole(*map, map->b, map->b_numbers, map->k, map->n);
    expect_whole(*map, map->d, map->d_numbers, map->m, map->n);
  }
}

constexpr Entry kNone = {-1, -1};

// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type", .bf16.
TEST(SimulatorInstructions, Mma16x8x16) {
  expect(sim::kMma, {
                        {0, 0, {0, 0}, {0, 0}, {0, 0}},
                        {0, 1, {0, 1}, {1, 0}, {0, 1}},
                        {0, 2, {8, 0}, {8, 0}, {8, 0}},
                        {0, 3, {8, 1}, {9, 0}, {8, 1}},
                        {0, 4, {0, 8}, kNone, kNone},
                        {0, 7, {8, 9}, kNone, kNone},
                        {1, 0, {0, 2}, {2, 0}, {0, 2}},
                        {3, 5, {0, 15}, kNone, kNone},
                        {4, 0, {1, 0}, {0, 1}, {1, 0}},
                        {6, 2, {9, 4}, {12, 1}, {9, 4}},
                        {6, 3, {9, 5}, {13, 1}, {9, 5}},
                        {31, 0, {7, 6}, {6, 7}, {7, 6}},
                        {31, 3, {15, 7}, {15, 7}, {15, 7}},
                        {31, 7, {15, 15}, kNone, kNone},
                    });
}

// CDNA 3 ISA and AMD's matrix instruction calculator, v_mfma_f32_16x16x16_bf16.
TEST(SimulatorInstructions, Mfma16x16x16) {
  expect(sim::kMfma, {
                         {0, 0, {0, 0}, {0, 0}, {0, 0}},
                         {0, 3, {0, 3}, {3, 0}, {3, 0}},
                         {1, 0, {1, 0}, {0, 1}, {0, 1}},
                         {15, 2, {15, 2}, {2, 15}, {2, 15}},
                         {16, 0, {0, 4}, {4, 0}, {4, 0}},
                         {18, 1, {2, 5}, {5, 2}, {5, 2}},
                         {37, 3, {5, 11}, {11, 5}, {11, 5}},
                         {63, 0, {15, 12}, {12, 15}, {12, 15}},
                         {63, 3, {15, 15}, {15, 15}, {15, 15}},
                     });
}

// RDNA 4 ISA, v_wmma_f32_16x16x16_bf16 on 32 lanes.
TEST(SimulatorInstructions, Wmma16x16x16) {
  expect(sim::kWmma, {
                         {0, 0, {0, 0}, {0, 0}, {0, 0}},
                         {0, 7, {0, 7}, {7, 0}, {7, 0}},
                         {5, 3, {5, 3}, {3, 5}, {3, 5}},
                         {15, 7, {15, 7}, {7, 15}, {7, 15}},
                         {16, 0, {0, 8}, {8, 0}, {8, 0}},
                         {20, 2, {4, 10}, {10, 4}, {10, 4}},
                         {31, 7, {15, 15}, {15, 15}, {15, 15}},
                     });
}

uint32_t pair(uint32_t low, uint32_t high) { return low >> 16 | (high & 0xffff0000u); }
constexpr uint32_t kOne = 0x3f800000u, kTwo = 0x40000000u, kThree = 0x40400000u;

// One number each in A and B, told by hand, on top of what D holds: bits of the lower half come first.
void one_product_kernel(float* out) {
  using namespace moert::gpu;
  float d[4] = {0.5f, 0.5f, 0.5f, 0.5f};
  const int lane = thread();
  // A[9][5] = 2 is in lane 6's a3; B[5][3] = 3 is in lane 14's b1. D[9][3] is lane 5's d3.
  const uint32_t a1 = lane == 6 ? pair(0, kTwo) : 0, b0 = lane == 14 ? pair(0, kThree) : 0;
  mma_m16n8k16_bf16(d, 0, a1, 0, 0, b0, 0);
  for (int i = 0; i < 4; ++i) out[lane * 4 + i] = d[i];
}

TEST(SimulatorInstructions, OneProduct) {
  float out[128];
  sim::run_now(32, one_product_kernel, {1, 1}, 32, 0, &out[0]);
  for (int i = 0; i < 128; ++i) EXPECT_EQ(out[i], i == 5 * 4 + 3 ? 6.5f : 0.5f) << i;
}

// 2^24 + 1 - 2^24 is 0 in f32, 1 if the sums are taken in another order.
void order_kernel(float* out) {
  using namespace moert::gpu;
  const uint32_t large = 0x4b800000u;  // 2^24
  float d[8] = {};
  const uint32_t first = thread() < 16 ? pair(large, kOne) : 0;              // k = 0, 1
  const uint32_t second = thread() < 16 ? pair(large | 0x80000000u, 0) : 0;  // k = 2
  const uint32_t ones = pair(kOne, kOne);
  wmma_16x16x16_bf16(d, {first, second, 0, 0}, {ones, ones, ones, ones});
  out[thread()] = d[0];
}

TEST(SimulatorInstructions, SumsRiseInK) {
  float out[32];
  sim::run_now(32, order_kernel, {1, 1}, 32, 0, &out[0]);
  for (const float v : out) EXPECT_EQ(v, 0);
}

}  // namespace
