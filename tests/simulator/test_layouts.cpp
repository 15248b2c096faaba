// The products of tile/layouts.cuh through the instructions' own maps: the two agree only if both are right.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "../../plugins/gpu/tile/layouts.cuh"

namespace {

using namespace moert;
using namespace moert::gpu;

constexpr int kK = 2 * kChunk;

uint32_t bits(float value) {
  uint32_t word;
  std::memcpy(&word, &value, sizeof word);
  return word;
}

// Of values that are exact in bf16.
uint32_t pair(float low, float high) { return bits(low) >> 16 | (bits(high) & 0xffff0000u); }

struct Operands {
  const float* a;  // [kPanelRows][kK]
  const float* b;  // [kCols][kK]
  float* c;        // [kPanelRows][kCols]
};

template <class L>
void bf16_kernel(Operands of) {
  const int lane = thread();
  float c[L::kC] = {};
  for (int first = 0; first < kK; first += kChunk) {
    uint32_t a[L::kA / 2], b[L::kB / 2];
    for (int i = 0; i < L::kA; i += 2) {
      const float* row = of.a + L::a_row(lane, i) * kK + first;
      a[i / 2] = pair(row[L::a_k(lane, i)], row[L::a_k(lane, i + 1)]);
    }
    for (int i = 0; i < L::kB; i += 2) {
      const float* row = of.b + L::b_col(lane) * kK + first;
      b[i / 2] = pair(row[L::b_k(lane, i)], row[L::b_k(lane, i + 1)]);
    }
    L::multiply(c, a, b);
  }
  for (int i = 0; i < L::kC; ++i)
    of.c[L::c_row(lane, i) * L::kCols + L::lane_col(lane, i % L::kLaneCols)] = c[i];
}

template <class L>
void f32_kernel(Operands of) {
  const int lane = thread();
  float c[L::kC] = {};
  for (int first = 0; first < kK; first += kChunk) {
    float a[L::kA], b[L::kB];
    for (int i = 0; i < L::kA; ++i) a[i] = of.a[L::a_row(lane, i) * kK + first + L::a_k(lane, i)];
    for (int i = 0; i < L::kB; ++i) b[i] = of.b[L::b_col(lane) * kK + first + L::b_k(lane, i)];
    L::multiply(c, a, b);
  }
  for (int i = 0; i < L::kC; ++i)
    of.c[L::c_row(lane, i) * L::kCols + L::lane_col(lane, i % L::kLaneCols)] = c[i];
}

// Runs a kernel on made-up operands: whether it gives the plain product, exactly, or within what f32 sums may differ.
template <class L, class Draw>
testing::AssertionResult multiplies(void (*kernel)(Operands), bool exact, Draw draw) {
  std::vector<float> a(kPanelRows * kK), b(L::kCols * kK), c(kPanelRows * L::kCols, NAN);
  for (float& v : a) v = draw();
  for (float& v : b) v = draw();
  sim::run_now(L::kWarp, kernel, {1, 1}, L::kWarp, 0, Operands{a.data(), b.data(), c.data()});
  for (int row = 0; row < kPanelRows; ++row)
    for (int col = 0; col < L::kCols; ++col) {
      double sum = 0, size = 0;
      for (int k = 0; k < kK; ++k) {
        const double part = double{a[row * kK + k]} * b[col * kK + k];
        sum += part;
        size += std::fabs(part);
      }
      const double tolerance = exact ? 0 : size * kK * 0x1p-24;
      if (!(std::fabs(c[row * L::kCols + col] - sum) <= tolerance))
        return testing::AssertionFailure() << "row " << row << " column " << col << ": "
                                           << c[row * L::kCols + col] << " instead of " << sum;
    }
  return testing::AssertionSuccess();
}

template <class L>
class SimulatorLayout : public testing::Test {};
using Layouts = testing::Types<LayoutNv, LayoutCdna, LayoutRdna>;
TYPED_TEST_SUITE(SimulatorLayout, Layouts);

TYPED_TEST(SimulatorLayout, IntegersExactly) {
  std::mt19937 random(7);
  const auto draw = [&] { return static_cast<float>(static_cast<int>(random() % 201) - 100); };
  EXPECT_TRUE(multiplies<TypeParam>(bf16_kernel<TypeParam>, true, draw));
  EXPECT_TRUE(multiplies<TypeParam>(f32_kernel<TypeParam>, true, draw));
}

TYPED_TEST(SimulatorLayout, RandomNumbers) {
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  const auto bf16_number = [&] {
    const uint32_t word = bits(normal(random)) & 0xffff0000u;
    float value;
    std::memcpy(&value, &word, sizeof value);
    return value;
  };
  EXPECT_TRUE(multiplies<TypeParam>(f32_kernel<TypeParam>, false, [&] { return normal(random); }));
  EXPECT_TRUE(multiplies<TypeParam>(bf16_kernel<TypeParam>, false, bf16_number));
}

}  // namespace
