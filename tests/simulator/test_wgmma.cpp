// The simulator's products of four warps, and the descriptors that they read shared memory by.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <moert_gpu_wgmma.cuh>
#include <random>
#include <vector>

#include "../../plugins/gpu/port.cuh"

namespace {

using namespace moert;
using namespace moert::gpu;

TEST(SharedMatrix, FieldsOfADescriptor) {
  // PTX ISA: address, leading and stride offset in units of 16 bytes from bits 0, 16 and 32 on; swizzle in bits 62, 63.
  const sim::SharedMatrix plain = sim::SharedMatrix::of(0x0000'0008'0080'0123u);
  EXPECT_EQ(plain.start, 0x1230u);
  EXPECT_EQ(plain.leading, 0x800u);
  EXPECT_EQ(plain.stride, 0x80u);
  EXPECT_EQ(plain.swizzle, 0u);
  EXPECT_EQ(sim::SharedMatrix::of(uint64_t{1} << 62).swizzle, 1u);
  EXPECT_EQ(sim::SharedMatrix::of(uint64_t{3} << 49).base_offset, 3u);
  // Number 9 of column 10: the second block of K, of the second of columns, its third row, its second number.
  EXPECT_EQ(plain.at(9, 10), 0x1230u + 0x800u + 0x80u + 2 * 16 + 2);
}

constexpr int kRows = 64, kCols = 64, kK = 16;
constexpr uint32_t kStart = 256, kLeading = 1280, kStride = 144;  // blocks that leave gaps

struct Operands {
  const uint16_t* a;  // [kRows][kK]
  const uint16_t* b;  // [kCols][kK]
  float* d;           // [kRows][kCols]
  bool waits;
};

void product(Operands of) {
  const int lane = thread() % 32, warp = thread() / 32;
  for (int i = thread(); i < kCols * kK; i += threads()) {
    const int n = i / kK, k = i % kK;
    std::memcpy(shared() + kStart + k / 8 * kLeading + n / 8 * kStride + n % 8 * 16 + k % 8 * 2,
                of.b + i, 2);
  }
  sync_block();
  uint32_t a[4];
  for (int i = 0; i < 4; ++i)
    std::memcpy(&a[i], of.a + (warp * 16 + lane / 4 + i % 2 * 8) * kK + lane % 4 * 2 + i / 2 * 8,
                4);
  float d[kCols / 8][4] = {};
  for (int i = 0; i < kCols / 8 * 4; ++i) d[i / 4][i % 4] = 1.0f;
  wgmma_begin();
  wgmma_m64k16_bf16(d, a, shared_matrix(shared() + kStart, kLeading, kStride));
  wgmma_commit();
  const auto put = [&] {
    for (int i = 0; i < kCols / 8 * 4; ++i)
      of.d[(warp * 16 + lane / 4 + i % 4 / 2 * 8) * kCols + i / 4 * 8 + lane % 4 * 2 + i % 2] =
          d[i / 4][i % 4];
  };
  if (!of.waits) put();
  wgmma_wait<0>();
  if (of.waits) put();
}

// Small whole numbers: every sum is exact.
TEST(Wgmma, IsThePlainProductOnceItIsWaitedFor) {
  std::mt19937 random(7);
  std::vector<int> a(kRows * kK), b(kCols * kK);
  std::vector<uint16_t> a_bits, b_bits;
  const auto draw = [&](std::vector<int>& numbers, std::vector<uint16_t>& bits) {
    for (int& number : numbers) {
      number = static_cast<int>(random() % 17) - 8;
      const auto value = static_cast<float>(number);
      uint32_t word;
      std::memcpy(&word, &value, sizeof word);
      bits.push_back(static_cast<uint16_t>(word >> 16));
    }
  };
  draw(a, a_bits);
  draw(b, b_bits);
  for (const bool waits : {true, false}) {
    std::vector<float> d(kRows * kCols);
    sim::run_now(32, product, {}, 128, 4096,
                 Operands{a_bits.data(), b_bits.data(), d.data(), waits});
    for (int row = 0; row < kRows; ++row)
      for (int column = 0; column < kCols; ++column) {
        int want = 1;
        for (int k = 0; waits && k < kK; ++k) want += a[row * kK + k] * b[column * kK + k];
        ASSERT_EQ(d[row * kCols + column], static_cast<float>(want)) << row << ", " << column;
      }
  }
}

void unknown_swizzle(int) {
  float d[8][4] = {};
  const uint32_t a[4] = {};
  wgmma_m64k16_bf16(d, a, shared_matrix(shared(), 128, 128) | uint64_t{1} << 62);
}
void half_a_group(int) {
  float d[8][4] = {};
  const uint32_t a[4] = {};
  wgmma_m64k16_bf16(d, a, shared_matrix(shared(), 128, 128));
}

TEST(WgmmaDeathTest, TellsWhatIsWrong) {
  EXPECT_DEATH(sim::run_now(32, unknown_swizzle, {}, 128, 4096, 0), "a swizzle");
  EXPECT_DEATH(sim::run_now(32, half_a_group, {}, 64, 4096, 0), "whole groups of warps");
  EXPECT_DEATH(sim::run_now(32, half_a_group, {}, 128, 512, 0), "leaves the block's shared memory");
}

}  // namespace
