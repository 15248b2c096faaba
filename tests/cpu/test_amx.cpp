// The kernel for tiles of AMX on emulated ones: its numbers bit by bit, and what it reads and leaves.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "cpu/emulated_tiles.hpp"
#include "cpu/products.hpp"

namespace moert::cpu::testing {
namespace {

using namespace simd;

enum class Lie { apart, evenly, backwards, all_one };

struct Operands {
  Operands(int64_t row_count, int64_t row_depth, Lie lie, uint64_t seed)
      : count(row_count), depth(row_depth), random(seed) {
    // One allocation that ends with the last row, or each row its own.
    const bool apart = lie == Lie::apart;
    const int64_t gap = apart || lie == Lie::all_one ? 0 : depth + 3;
    for (int64_t i = 0; i < (apart ? count : 1); ++i) {
      const int64_t numbers = apart ? depth : (count - 1) * gap + depth;
      memory.emplace_back();
      for (int64_t n = 0; n < numbers; ++n)
        memory.back().push_back(bf16_bits(random_number(random)));
      memory.back().shrink_to_fit();
    }
    for (int64_t r = 0; r < count; ++r) {
      const int64_t place = lie == Lie::backwards ? count - 1 - r : r;
      rows.push_back(apart ? memory[static_cast<size_t>(r)].data()
                           : memory[0].data() + place * gap);
    }
    panel.resize(static_cast<size_t>((depth + 1) / 2 * kPanel));
    for (uint32_t& pair : panel)
      pair = bf16_bits(random_number(random)) | uint32_t{bf16_bits(random_number(random))} << 16;
    if (depth % 2 != 0)
      for (size_t c = panel.size() - kPanel; c < panel.size(); ++c) panel[c] &= 0xffffu;
    sums.resize(static_cast<size_t>(count * kPanel));
    for (float& sum : sums) sum = random_number(random);
  }

  Product product(float* out, bool add) const {
    return {rows.data(), count, reinterpret_cast<const unsigned char*>(panel.data()), 0, depth, out,
            add,         {}};
  }
  std::vector<float> multiplied(bool add) const {
    std::vector<float> out = sums;
    multiply_tiles<EmulatedTiles>(product(out.data(), add));
    return out;
  }
  uint16_t number(int64_t row, int64_t d) const {
    return static_cast<const uint16_t*>(rows[static_cast<size_t>(row)])[d];
  }
  // One element, 32 numbers of the depth at a time.
  float expected(int64_t row, int64_t column, bool add) const {
    float sum = add ? sums[static_cast<size_t>(row * kPanel + column)] : 0.0f;
    for (int64_t d = 0; d < depth; d += 32) {
      const int64_t pairs = (std::min<int64_t>(32, depth - d) + 1) / 2;
      std::vector<uint32_t> left;
      for (int64_t k = 0; k < pairs; ++k) {
        const int64_t at = d + 2 * k;
        left.push_back(number(row, at) |
                       (at + 1 < depth ? uint32_t{number(row, at + 1)} << 16 : 0u));
      }
      sum = dot_of_pairs(sum, left.data(), &panel[static_cast<size_t>(d / 2 * kPanel + column)],
                         kPanel, pairs);
    }
    return sum;
  }

  int64_t count, depth;
  std::mt19937_64 random;
  std::vector<std::vector<uint16_t>> memory;
  std::vector<const void*> rows;
  std::vector<uint32_t> panel;
  std::vector<float> sums;
};

void expect_elements(const Operands& o, bool add) {
  const std::vector<float> got = o.multiplied(add);
  for (int64_t r = 0; r < o.count; ++r)
    for (int64_t c = 0; c < kPanel; ++c) {
      const float want = o.expected(r, c, add);
      ASSERT_TRUE(same(&got[static_cast<size_t>(r * kPanel + c)], &want, 1))
          << "row " << r << ", column " << c << ": got " << got[static_cast<size_t>(r * kPanel + c)]
          << ", want " << want;
    }
}

// Depths around a pair, a row of a tile and what is copied at a time.
constexpr int64_t kDepths[] = {1, 2, 31, 32, 33, 64, 95, 256, 289};

class AmxRows : public ::testing::TestWithParam<int64_t> {};

TEST_P(AmxRows, AreThePublishedSums) {
  for (const int64_t depth : kDepths)
    for (const bool add : {false, true}) {
      SCOPED_TRACE("depth " + std::to_string(depth) + (add ? ", added" : ""));
      expect_elements(Operands(GetParam(), depth, Lie::apart, 1), add);
    }
}

TEST_P(AmxRows, MayLieAnyhow) {
  for (const Lie lie : {Lie::evenly, Lie::backwards, Lie::all_one}) {
    SCOPED_TRACE(static_cast<int>(lie));
    expect_elements(Operands(GetParam(), 97, lie, 2), false);
  }
}

TEST_P(AmxRows, AreTheSameBitsAlone) {
  const Operands o(GetParam(), 287, Lie::apart, 3);
  const std::vector<float> whole = o.multiplied(true);
  for (int64_t r = 0; r < o.count; ++r) {
    std::vector<float> alone(o.sums.begin() + r * kPanel, o.sums.begin() + (r + 1) * kPanel);
    Product p = o.product(alone.data(), true);
    p.rows += r;
    p.count = 1;
    multiply_tiles<EmulatedTiles>(p);
    EXPECT_TRUE(same(alone.data(), &whole[static_cast<size_t>(r * kPanel)], kPanel)) << "row " << r;
  }
}

TEST_P(AmxRows, AreTheSameBitsInSeveralCalls) {
  const Operands o(GetParam(), 301, Lie::apart, 4);
  const std::vector<float> whole = o.multiplied(false);
  for (const int64_t pass : {32, 96, 288}) {
    std::vector<float> out(whole.size(), NAN);
    for (int64_t first = 0; first < o.depth; first += pass) {
      Product p = o.product(out.data(), first > 0);
      p.first = first;
      p.depth = std::min(pass, o.depth - first);
      multiply_tiles<EmulatedTiles>(p);
    }
    EXPECT_TRUE(same(out.data(), whole.data(), o.count * kPanel)) << "calls of " << pass;
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, AmxRows, ::testing::Range<int64_t>(1, 41));

// Near the sums of f64: the emulation and the kernel may not agree on a wrong product.
TEST(Amx, IsNearTheProduct) {
  const Operands o(17, 1001, Lie::apart, 5);
  const std::vector<float> got = o.multiplied(false);
  for (int64_t r = 0; r < o.count; ++r)
    for (int64_t c = 0; c < kPanel; ++c) {
      double want = 0;
      double size = 0;
      for (int64_t d = 0; d < o.depth; ++d) {
        const uint32_t pair = o.panel[static_cast<size_t>(d / 2 * kPanel + c)];
        const double term = double{of_bf16(o.number(r, d))} *
                            double{of_bf16(static_cast<uint16_t>(d % 2 == 0 ? pair : pair >> 16))};
        want += term;
        size += std::fabs(term);
      }
      EXPECT_NEAR(double{got[static_cast<size_t>(r * kPanel + c)]}, want, size * 0x1p-20);
    }
}

TEST(Amx, WritesItsRowsAlone) {
  const Operands o(3, 40, Lie::apart, 6);
  std::vector<float> out(static_cast<size_t>(4 * kPanel), 7.0f);
  multiply_tiles<EmulatedTiles>(o.product(out.data(), false));
  for (size_t i = 3 * kPanel; i < out.size(); ++i) EXPECT_EQ(out[i], 7.0f);
}

TEST(Amx, KeepsNanInItsRow) {
  Operands o(5, 70, Lie::apart, 7);
  const std::vector<float> clean = o.multiplied(false);
  o.memory[2][69] = 0x7fc0;
  const std::vector<float> got = o.multiplied(false);
  for (int64_t c = 0; c < kPanel; ++c)
    EXPECT_TRUE(std::isnan(got[static_cast<size_t>(2 * kPanel + c)]));
  EXPECT_TRUE(same(got.data(), clean.data(), 2 * kPanel));
  EXPECT_TRUE(same(&got[3 * kPanel], &clean[3 * kPanel], 2 * kPanel));
}

// The emulation itself, by numbers that tell other orders and roundings from the published ones.
struct Dot {
  const char* what;
  float sum;
  float left[4], right[4];
  float want;
};
constexpr Dot kDots[] = {
    {"products", 1, {2, 3, 5, 7}, {11, 13, 17, 19}, 280},
    // The 1 is lost beside 2^24 in the chain of first numbers. Pairs by themselves, or a single chain, would keep it.
    {"two chains", 0, {0x1p12f, -0x1p12f, 1, 0}, {0x1p12f, 0x1p12f, 1, 0}, 0},
    // A chain that began at the sum would give 1.
    {"from zero", -0x1p24f, {0x1p12f, 0, 1, 0}, {0x1p12f, 0, 1, 0}, 0},
    {"subnormal numbers read as zeros", 0, {0x1p-127f, 0, 0, 0}, {0x1p127f, 0, 0, 0}, 0},
    {"a subnormal product is a zero", 0, {0x1p-100f, 0, 0, 0}, {0x1p-30f, 0, 0, 0}, 0},
    {"a subnormal sum is a zero", 0x1.8p-126f, {-1, 0, 0, 0}, {0x1p-126f, 0, 0, 0}, 0},
    {"a subnormal sum is read as zero", 0x1p-127f, {0, 0, 0, 0}, {0, 0, 0, 0}, 0},
    {"the least normal number", 0, {0x1p-126f, 0, 0, 0}, {1, 0, 0, 0}, 0x1p-126f},
};

TEST(EmulatedTiles, AddInThePublishedOrder) {
  for (const Dot& dot : kDots) {
    uint32_t pairs[2][2];
    for (int side = 0; side < 2; ++side)
      for (int k = 0; k < 2; ++k) {
        const float* numbers = side == 0 ? dot.left : dot.right;
        pairs[side][k] = bf16_bits(numbers[2 * k]) | uint32_t{bf16_bits(numbers[2 * k + 1])} << 16;
      }
    EXPECT_EQ(dot_of_pairs(dot.sum, pairs[0], pairs[1], 1, 2), dot.want) << dot.what;
  }
}

}  // namespace
}  // namespace moert::cpu::testing
