// cpu.simd against the oracle, and against itself: on other numbers of threads, and row by row.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "cpu/rig.hpp"
#include "moert/sdk/dtypes.hpp"

namespace moert::cpu::testing {
namespace {

moert_activation_t act(const char* name, double alpha = 0, double beta = 0, double limit = 0) {
  return {sizeof(moert_activation_t), 0, name, alpha, beta, limit};
}

constexpr uint32_t kF32 = MOERT_DTYPE_F32;
constexpr uint32_t kF16 = MOERT_DTYPE_F16;
constexpr uint32_t kBf16 = MOERT_DTYPE_BF16;
constexpr uint32_t kBias = MOERT_PROBLEM_BIAS;
constexpr uint32_t kPlain = MOERT_PROBLEM_NON_GATED;
constexpr uint32_t kOnInput = MOERT_PROBLEM_WEIGHT_ON_INPUT;

// Sizes around those of tiles (16 columns), panels (32 and 64) and pairs, and depths of more than one pass.
const Case kCases[] = {
    {"bf16", {96, 70, 5, 3}, kBf16, "bf16", kBf16},
    {"bf16_odd", {67, 33, 4, 2}, kBf16, "bf16", kF32},
    {"bf16_one", {1, 1, 2, 1}, kBf16, "bf16", kF32},
    {"bf16_deep", {4103, 9, 2, 1}, kBf16, "bf16", kF32},
    {"bf16_wide", {9, 4103, 2, 1}, kBf16, "bf16", kF32},
    {"bf16_704", {192, 704, 3, 2}, kBf16, "bf16", kBf16},
    {"f32_rows_of_bf16", {67, 45, 4, 2}, kF32, "bf16", kF32},
    {"f16_rows_of_bf16", {66, 45, 4, 2}, kF16, "bf16", kF16},
    {"bf16_rows_of_f32", {66, 45, 4, 2}, kBf16, "f32", kF32},
    {"f16", {65, 49, 4, 2}, kF16, "f16", kF16},
    {"f16_deep", {4103, 9, 2, 1}, kF16, "f16", kF32},
    {"f32", {65, 64, 4, 2}, kF32, "f32", kF32},
    {"f32_deep", {2111, 9, 2, 1}, kF32, "f32", kF32},
    {"on_input", {40, 33, 4, 2}, kBf16, "bf16", kBf16, act("silu"), kOnInput},
    {"on_input_f32", {40, 33, 4, 2}, kF32, "f32", kF32, act("silu"), kOnInput},
    {"non_gated", {40, 65, 4, 2}, kBf16, "bf16", kF32, act("relu2"), kPlain},
    {"non_gated_bias", {40, 65, 4, 2}, kF32, "f32", kF32, act("silu", 0, 0, 0.5), kPlain | kBias},
    {"bias", {71, 33, 4, 2}, kF32, "f32", kF32, act("swigluoai", 1.702, 1, 0.75), kBias},
    {"bias_bf16", {71, 33, 4, 2}, kBf16, "bf16", kBf16, act("swigluoai", 1.702, 1, 0.75), kBias},
    {"gelu", {33, 40, 4, 2}, kF32, "f32", kF32, act("gelu"), kBias},
    {"gelu_plain", {33, 40, 4, 2}, kF32, "f32", kF32, act("gelu"), kPlain | kBias},
    {"gelu_tanh", {33, 40, 4, 2}, kF32, "f32", kF32, act("gelu_tanh")},
    {"relu", {33, 40, 4, 2}, kF32, "f32", kF32, act("relu")},
    {"swiglustep", {33, 40, 4, 2}, kF32, "f32", kF32, act("swiglustep", 0, 0, 0.5)},
    {"situ", {33, 40, 4, 2}, kBf16, "bf16", kF32, act("situ", 0.75, 1.5)},
    {"mxfp4", {96, 160, 6, 3}, kBf16, kMxfp4, kBf16},
    {"mxfp4_small", {32, 32, 3, 2}, kBf16, kMxfp4, kF32},
    {"mxfp4_704", {64, 704, 3, 2}, kBf16, kMxfp4, kF32, act("swigluoai", 1.702, 1, 7), kBias},
    {"mxfp4_f32", {96, 64, 4, 3}, kF32, kMxfp4, kF32, act("swigluoai", 1.702, 1, 7), kBias},
    {"mxfp4_f16_plain", {64, 96, 4, 3}, kF16, kMxfp4, kF16, act("relu2"), kPlain},
    {"mxfp4_on_input", {64, 96, 4, 2}, kBf16, kMxfp4, kBf16, act("silu"), kOnInput},
    {"fp8", {160, 192, 5, 3}, kBf16, kFp8Blocks, kBf16},
    {"fp8_odd", {261, 77, 4, 2}, kBf16, kFp8Blocks, kF32},
    {"fp8_one", {1, 1, 2, 1}, kBf16, kFp8Blocks, kF32},
    {"fp8_f32_rows", {160, 130, 4, 2}, kF32, kFp8Blocks, kF32},
    {"fp8_bias", {71, 33, 4, 2}, kBf16, kFp8Blocks, kF32, act("swigluoai", 1.702, 1, 7), kBias},
    {"fp8_plain", {71, 165, 4, 2}, kBf16, kFp8Blocks, kF32, act("relu2"), kPlain},
    {"fp8_on_input", {64, 96, 4, 2}, kBf16, kFp8Blocks, kBf16, act("silu"), kOnInput},
    {"fp8_bf16_scales", {160, 130, 4, 2}, kBf16, "fp8_e4m3fn.block128x128.bf16", kF32},
    {"fp8_e8m0_scales", {160, 130, 4, 2}, kBf16, "fp8_e4m3fn.block128x128.e8m0", kF32},
    {"fp8_mx", {96, 64, 4, 2}, kBf16, "fp8_e4m3fn.block1x32.e8m0", kF32},
    {"fp8_block1x128", {261, 77, 4, 2}, kF32, "fp8_e4m3fn.block1x128.f32", kF32},
    {"fp8_channel", {391, 99, 4, 2}, kBf16, "fp8_e4m3fn.channel.f32", kF32},
    {"fp8_channel_f16", {130, 67, 4, 2}, kF32, "fp8_e4m3fn.channel.f16", kF32},
    {"fp8_tensor", {391, 99, 4, 2}, kBf16, "fp8_e4m3fn.tensor.f32", kF32},
    {"fp8_token", {391, 99, 4, 2}, kBf16, "fp8_e4m3fn.channel.f32", kF32, act("silu"), 0, "token"},
    {"fp8_group", {256, 261, 4, 2}, kBf16, kFp8Blocks, kBf16, act("silu"), 0, "group128"},
    {"fp8_ue8m0", {160, 261, 4, 2}, kF32, kFp8Blocks, kF32, act("silu"), 0, "group128_ue8m0"},
    {"fp8_mx_rows",
     {96, 64, 4, 2},
     kBf16,
     "fp8_e4m3fn.block1x32.e8m0",
     kF32,
     act("silu"),
     0,
     "mxfp8"},
    {"fp8_token_on_input",
     {64, 96, 4, 2},
     kBf16,
     kFp8Blocks,
     kBf16,
     act("silu"),
     kOnInput,
     "token"},
    {"fp8_static", {160, 70, 7, 3}, kBf16, kFp8Blocks, kF32, act("silu"), 0, "static"},
    {"fp8_static_plain",
     {65, 70, 4, 2},
     kF32,
     "fp8_e4m3fn.tensor.f32",
     kF32,
     act("relu"),
     kPlain,
     "static"},
    {"fp8_static_on_input",
     {65, 70, 4, 2},
     kF32,
     "fp8_e4m3fn.tensor.f32",
     kF32,
     act("silu"),
     kOnInput,
     "static"},
    {"fp8_times", {160, 70, 4, 2}, kBf16, kFp8Blocks, kF32, act("silu"), 0, "none", "multiply"},
    {"fp8_over",
     {65, 70, 4, 2},
     kF32,
     "fp8_e4m3fn.channel.f32",
     kF32,
     act("relu2"),
     kPlain,
     "none",
     "divide"},
    {"int8", {391, 99, 4, 2}, kBf16, "int8.channel.f32", kF32},
    {"int8_tensor", {130, 261, 4, 2}, kF32, "int8.tensor.bf16", kF32},
    {"int8_plain", {71, 165, 4, 2}, kBf16, "int8.channel.f16", kBf16, act("relu2"), kPlain},
    {"int8_token", {391, 99, 4, 2}, kBf16, "int8.channel.f32", kF32, act("silu"), 0, "token"},
    {"int8_static", {65, 70, 4, 2}, kF32, "int8.tensor.f32", kF32, act("silu"), 0, "static"},
    {"decoded_rows", {71, 33, 4, 2}, kBf16, "fp8_e4m3fn.block20x128.f32", kF32},
    {"decoded_columns",
     {71, 130, 4, 2},
     kF32,
     "fp8_e4m3fn.block1x33.f32",
     kF32,
     act("silu"),
     0,
     "token"},
    {"mxfp4_group", {256, 96, 4, 2}, kBf16, kMxfp4, kF32, act("silu"), 0, "group32"},
    {"many_slots", {34, 18, 40, 32}, kBf16, "bf16", kF32},
    {"many_experts", {18, 10, 1024, 4}, kBf16, "bf16", kF32},
};

class SimdRows : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (level_is_absent()) GTEST_SKIP() << "this machine does not have the level";
  }
};

// What a batch looks like: one tile, several, more rows than a task has, and of many slots more than a block has.
struct Look {
  int64_t tokens;
  Routing routing;
};
std::vector<Look> looks_of(const Case& c) {
  return {{1, Routing::random},
          {7, Routing::with_gaps},
          {23, Routing::one_expert},
          {c.sizes.top_k >= 32 ? 260 : 64, Routing::random},
          {200, Routing::one_expert}};
}

std::string look_text(const Look& look) {
  return std::to_string(look.tokens) + " tokens, routing " +
         std::to_string(static_cast<int>(look.routing));
}

// Unit roundoff of what lies between the projections and of the output.
double rounding(const Case& c) {
  const auto of = [](uint32_t dtype) {
    return dtype == kBf16 ? 0x1p-8 : dtype == kF16 ? 0x1p-11 : 0.0;
  };
  return std::max(of(c.rows), of(c.out));
}

TEST_P(SimdRows, AreTheOracles) {
  const Case& c = GetParam();
  const Layer ours("cpu.simd", c, 2);
  const Layer oracle("cpu.ref", c, 2);
  for (const Look& look : looks_of(c)) {
    SCOPED_TRACE(look_text(look));
    const Batch batch = make_batch(c, look.tokens, look.routing);
    const std::vector<double> got = ours.numbers(batch);
    const std::vector<double> want = oracle.numbers(batch);
    const auto h = static_cast<size_t>(c.sizes.hidden);
    int64_t flipped = 0;
    for (size_t t = 0; t < static_cast<size_t>(look.tokens); ++t) {
      double error = 0;
      double norm = 0;
      for (size_t i = t * h; i < (t + 1) * h; ++i) {
        error += (got[i] - want[i]) * (got[i] - want[i]);
        norm += want[i] * want[i];
      }
      // Sums of f32 as in docs/numerics.md; a middle and an output that are rounded, and the oracle's output.
      const bool close = std::sqrt(error) <= (1e-5 + 3 * rounding(c)) * std::sqrt(norm);
      // Where the middle is quantised, a number on the edge between two codes may fall to the other one, which is
      // away by an eighth of its size.
      if (!close && c.act_scheme != std::string("none")) {
        ++flipped;
        EXPECT_LE(std::sqrt(error), std::sqrt(norm) / 8) << "row " << t;
        continue;
      }
      EXPECT_TRUE(close) << "row " << t << ": " << std::sqrt(error) << " of " << std::sqrt(norm);
    }
    EXPECT_LE(flipped, 1 + look.tokens / 50);
  }
}

TEST_P(SimdRows, AreTheSameBitsOnAnyNumberOfThreads) {
  const Case& c = GetParam();
  std::vector<std::vector<unsigned char>> first;
  for (const int32_t threads : {1, 2, 3, 7, 40}) {
    const Layer layer("cpu.simd", c, threads);
    size_t index = 0;
    for (const Look& look : looks_of(c)) {
      const auto got = layer.forward(make_batch(c, look.tokens, look.routing));
      if (threads == 1)
        first.push_back(got);
      else
        EXPECT_TRUE(got == first[index]) << threads << " threads, " << look_text(look);
      ++index;
    }
  }
}

TEST_P(SimdRows, AreTheSameBitsInAnyBatch) {
  const Case& c = GetParam();
  const Layer layer("cpu.simd", c, 2);
  const size_t bytes = dtype_bytes(c.out, c.sizes.hidden);
  for (const Look& look : looks_of(c)) {
    const Batch batch = make_batch(c, look.tokens, look.routing);
    const auto whole = layer.forward(batch);
    for (int64_t t = 0; t < look.tokens; t += look.tokens > 30 ? 13 : 1) {
      const auto alone = layer.forward(batch.row(c, t));
      EXPECT_EQ(std::memcmp(alone.data(), &whole[static_cast<size_t>(t) * bytes], bytes), 0)
          << look_text(look) << ", row " << t;
    }
  }
}

TEST_P(SimdRows, MayHaveTheirNumbersApart) {
  const Case& c = GetParam();
  const Layer layer("cpu.simd", c, 2);
  Batch batch = make_batch(c, 9, Routing::random);
  EXPECT_TRUE(layer.forward(batch, 2) == layer.forward(batch));
  std::memset(batch.hidden.data(), 0xff, dtype_bytes(c.rows, 1));  // a NaN
  EXPECT_TRUE(layer.forward(batch, 2) == layer.forward(batch));
}

// A limit or a maximum must not turn NaN into a number. Without a gate half nothing else could bring it back.
TEST(SimdNan, StaysNanInEveryCurve) {
  if (level_is_absent()) GTEST_SKIP() << "this machine does not have the level";
  for (const moert_activation_t& activation : {act("silu"), act("silu", 0, 0, 2), act("gelu"),
                                               act("gelu_tanh"), act("relu"), act("relu2")}) {
    const Case c{"", {1, 1, 1, 1}, kF32, "f32", kF32, activation, kPlain};
    const Layer layer("cpu.simd", c, 1, Weights::ones);
    Batch batch{1, std::vector<unsigned char>(4), {0}, {1}};
    const float nan = std::nanf("");
    std::memcpy(batch.hidden.data(), &nan, 4);
    EXPECT_TRUE(std::isnan(layer.numbers(batch).at(0))) << activation.name;
  }
}

// Numbers that are not finite have no say in a scale and stay what they are, also beside nothing but zeros.
TEST(SimdCodedRows, KeepInfinityBesideZeros) {
  if (level_is_absent()) GTEST_SKIP() << "this machine does not have the level";
  for (const char* scheme : {"int8.channel.f32", "fp8_e4m3fn.channel.f32"}) {
    const Case c{"", {8, 6, 2, 1}, kF32, scheme, kF32, act("relu"), kPlain, "token"};
    const Layer ours("cpu.simd", c, 1), oracle("cpu.ref", c, 1);
    for (const float odd : {HUGE_VALF, -HUGE_VALF, std::nanf(""), 0.0f, 1e-45f}) {
      Batch batch = make_batch(c, 1, Routing::random);
      std::memset(batch.hidden.data(), 0, batch.hidden.size());
      std::memcpy(batch.hidden.data() + 12, &odd, 4);
      const std::vector<double> got = ours.numbers(batch), want = oracle.numbers(batch);
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])))
            << scheme << ", " << odd << ", column " << i << ": " << got[i] << ", want " << want[i];
    }
  }
}

// One number in and out, every expert the identity: the weights alone are summed. In slot order 1 is lost beside
// 2^24; in the order of experts, or backwards, it is what remains.
TEST(SimdSlots, AreAddedInTheirOrder) {
  if (level_is_absent()) GTEST_SKIP() << "this machine does not have the level";
  const Case c{"", {1, 1, 3, 3}, kF32, "f32", kF32, act("relu"), kPlain};
  const Layer layer("cpu.simd", c, 1, Weights::ones);
  const float one = 1;
  Batch batch{1, std::vector<unsigned char>(4), {0, 2, 1}, {0x1p24f, 1, -0x1p24f}};
  std::memcpy(batch.hidden.data(), &one, 4);
  EXPECT_EQ(layer.numbers(batch).at(0), 0.0);
  batch.weights = {0x1p24f, -0x1p24f, 1};
  EXPECT_EQ(layer.numbers(batch).at(0), 1.0);
}

INSTANTIATE_TEST_SUITE_P(All, SimdRows, ::testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace moert::cpu::testing
