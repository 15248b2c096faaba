// The router of cpu.simd: the oracle's bits, on any number of threads and in any batch.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "cpu/rig.hpp"
#include "cpu/router_rig.hpp"
#include "moert/sdk/dtypes.hpp"

namespace moert::cpu::testing {
namespace {

constexpr uint32_t kF64 = MOERT_DTYPE_F64;
constexpr uint32_t kF32 = MOERT_DTYPE_F32;
constexpr uint32_t kF16 = MOERT_DTYPE_F16;
constexpr uint32_t kBf16 = MOERT_DTYPE_BF16;
constexpr uint32_t kGateBias = MOERT_ROUTING_GATE_BIAS;
constexpr uint32_t kNorm = MOERT_ROUTING_INPUT_NORM;
constexpr uint32_t kChoiceBias = MOERT_ROUTING_SELECTION_BIAS;
constexpr uint32_t kGrouped = MOERT_ROUTING_GROUPED | MOERT_ROUTING_RENORMALIZE | kChoiceBias;

// Experts around those of lanes (8), panels (32) and tasks (256); depths of more than one pass for one row (6144) and
// for many (128).
const RouterCase kCases[] = {
    {"bf16", 96, 64, 8},
    {"bf16_odd", 67, 5, 2},
    {"one", 1, 1, 1},
    {"two", 3, 2, 2},
    {"deep", 6401, 9, 2},
    {"wide", 33, 1024, 32},
    {"ninth_panel", 130, 257, 8},
    {"f32", 257, 33, 4, kF32, kF32},
    {"f16", 129, 31, 4, kF16, kF16},
    {"f32_rows_of_bf16", 200, 40, 6, kF32, kBf16},
    {"bf16_rows_of_f32", 200, 40, 6, kBf16, kF32},
    {"f64_rows", 135, 24, 3, kF64, kF32},
    {"f64_gate", 135, 24, 3, kF32, kF64},
    {"f64_both", 135, 40, 3, kF64, kF64},
    {"gate_bias", 70, 32, 4, kBf16, kBf16, kGateBias},
    {"norm", 131, 48, 4, kBf16, kBf16, kNorm},
    {"norm_f32_bias", 131, 48, 4, kF32, kF32, kNorm | kGateBias},
    {"groups", 150, 64, 6, kBf16, kF32, kGrouped, "topk", "sigmoid", 8, 4},
    {"sparsemixer", 40, 16, 2, kBf16, kBf16, 0, "sparsemixer"},
    {"simulated", 40, 16, 4, kBf16, kBf16, 0, "simulated"},
};

// One tile, several, a block of 48 tokens and one more, blocks.
constexpr int64_t kTokens[] = {0, 1, 2, 7, 48, 49, 130};

RowsOf rows_of(const RouterCase& c, int64_t tokens) {
  return wild_rows(static_cast<uint64_t>(tokens) + 20, c.rows, tokens, c.hidden, -1);
}

class SimdRouter : public ::testing::TestWithParam<RouterCase> {
 protected:
  void SetUp() override {
    if (level_is_absent()) GTEST_SKIP() << "this machine does not have the level";
  }
};

TEST_P(SimdRouter, HasTheOraclesBits) {
  const RouterCase& c = GetParam();
  const RouterLayer ours("cpu.simd", c, 2);
  const RouterLayer oracle("cpu.ref", c, 2);
  for (const int64_t tokens : kTokens) {
    SCOPED_TRACE(std::to_string(tokens) + " tokens");
    const RowsOf hidden = rows_of(c, tokens);
    const std::vector<uint32_t> logits = ours.logits(hidden);
    EXPECT_TRUE(logits == oracle.logits(hidden));
    EXPECT_TRUE(ours.route(logits) == oracle.route(logits));
  }
}

TEST_P(SimdRouter, HasTheSameBitsOnAnyNumberOfThreads) {
  const RouterCase& c = GetParam();
  std::vector<std::vector<uint32_t>> first;
  std::vector<Decisions> decisions;
  for (const int32_t threads : {1, 2, 3, 7, 40}) {
    const RouterLayer layer("cpu.simd", c, threads);
    size_t index = 0;
    for (const int64_t tokens : kTokens) {
      const std::vector<uint32_t> logits = layer.logits(rows_of(c, tokens));
      if (threads == 1) {
        first.push_back(logits);
        decisions.push_back(layer.route(logits));
      }
      EXPECT_TRUE(logits == first[index]) << threads << " threads, " << tokens << " tokens";
      EXPECT_TRUE(layer.route(logits) == decisions[index])
          << threads << " threads, " << tokens << " tokens";
      ++index;
    }
  }
}

TEST_P(SimdRouter, HasTheSameBitsInAnyBatch) {
  const RouterCase& c = GetParam();
  const RouterLayer layer("cpu.simd", c, 2);
  const auto e = static_cast<std::ptrdiff_t>(c.experts);
  for (const int64_t tokens : {7, 130}) {
    const RowsOf hidden = rows_of(c, tokens);
    const std::vector<uint32_t> whole = layer.logits(hidden);
    for (int64_t t = 0; t < tokens; t += tokens > 30 ? 13 : 1) {
      const auto at = whole.begin() + static_cast<std::ptrdiff_t>(t) * e;
      EXPECT_TRUE(layer.logits(hidden.row(t)) == std::vector<uint32_t>(at, at + e)) << "row " << t;
    }
  }
}

TEST_P(SimdRouter, MayHaveItsNumbersApart) {
  const RouterCase& c = GetParam();
  const RouterLayer layer("cpu.simd", c, 2);
  const RowsOf hidden = rows_of(c, 9);
  EXPECT_TRUE(layer.logits(hidden, 2) == layer.logits(hidden));
}

bool is_nan(uint32_t bits) { return (bits & 0x7fffffffu) > 0x7f800000u; }

// NaN and infinities stay in their rows, and are there what the oracle makes of them.
TEST_P(SimdRouter, KeepsOddNumbersInTheirRows) {
  const RouterCase& c = GetParam();
  const RouterLayer ours("cpu.simd", c, 2);
  const RouterLayer oracle("cpu.ref", c, 2);
  RowsOf hidden = rows_of(c, 9);
  const std::vector<uint32_t> clean = ours.logits(hidden);
  hidden.set(2, c.hidden - 1, std::numeric_limits<double>::quiet_NaN());
  hidden.set(4, 0, std::numeric_limits<double>::infinity());
  hidden.set(7, c.hidden / 2, -std::numeric_limits<double>::infinity());
  const std::vector<uint32_t> got = ours.logits(hidden);
  const std::vector<uint32_t> want = oracle.logits(hidden);
  for (size_t i = 0; i < got.size(); ++i) {
    const size_t row = i / static_cast<size_t>(c.experts);
    const bool odd = row == 2 || row == 4 || row == 7;
    EXPECT_EQ(is_nan(got[i]), is_nan(want[i])) << "row " << row;
    EXPECT_TRUE(is_nan(got[i]) || got[i] == want[i]) << "row " << row;
    EXPECT_TRUE(odd || got[i] == clean[i]) << "row " << row;
    EXPECT_TRUE(row != 2 || is_nan(got[i])) << "row " << row;
  }
  EXPECT_TRUE(ours.route(got).ids == oracle.route(want).ids);
}

INSTANTIATE_TEST_SUITE_P(All, SimdRouter, ::testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(SimdRouterTwins, TheLowerIdGoesFirst) {
  if (level_is_absent()) GTEST_SKIP() << "this machine does not have the level";
  const RouterCase c{"", 96, 64, 64};
  const RouterLayer layer("cpu.simd", c, 2);
  const Decisions made = layer.route(layer.logits(rows_of(c, 130)));
  for (size_t t = 0; t < 130; ++t) {
    const auto first = made.ids.begin() + static_cast<std::ptrdiff_t>(t * 64);
    const auto zero = std::find(first, first + 64, 0);
    ASSERT_NE(zero, first + 63) << "row " << t;
    EXPECT_EQ(zero[1], 1) << "row " << t;
  }
}

TEST(SimdRouterRefusals, AreTheOracles) {
  if (level_is_absent()) GTEST_SKIP() << "this machine does not have the level";
  const RouterCase c{"", 96, 64, 8};
  for (const auto& change : std::initializer_list<std::function<void(moert_routing_t&)>>{
           [](auto&) {}, [](auto& r) { r.method = "best"; }, [](auto& r) { r.top_k = 65; },
           [](auto& r) { r.activation_dtype = MOERT_DTYPE_I8; },
           [](auto& r) { r.device.kind = MOERT_DEVICE_KIND('c', 'u', 'd', 'a'); },
           [](auto& r) { r.hidden_size = int64_t{1} << 60; },
           [](auto& r) { r.flags = MOERT_ROUTING_NEEDS_HIDDEN; }}) {
    moert_routing_t routing = routing_of(c);
    change(routing);
    EXPECT_EQ(router_reason("cpu.simd", routing), router_reason("cpu.ref", routing));
  }
}

}  // namespace
}  // namespace moert::cpu::testing
