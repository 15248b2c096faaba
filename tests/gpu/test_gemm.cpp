// The matrix kernels against plain sums: every codec, way of scaling, tiling and layout of this build.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "gemm_problem.hpp"
#include "gpu/experts/special.hpp"

namespace moert::gpu {
namespace {

// Which kernel multiplies, for items of which size.
struct Way {
  const char* word;
  Tiling tiling;
  GemmKernel kernel = GemmKernel::mma;

  // False on a simulated device that lacks the kernel.
  bool there() const {
    return kernel == GemmKernel::mma || special_gemm_missing(kernel, device_facts(0)).empty();
  }
  bool takes(const GemmCase& c) const {
    if (kernel == GemmKernel::native) return c.codec == Codec::mxfp4 && c.mx_rows;
    return c.codec != Codec::f32 || tiling == Tiling::narrow;  // weights of f32 have one tiling
  }
};
const Way kWays[] = {{"narrow", Tiling::narrow},
                     {"wide", Tiling::wide},
                     {"blocks", Tiling::blocks},
                     {"wgmma", Tiling::blocks, GemmKernel::wgmma},
                     {"native_narrow", Tiling::narrow, GemmKernel::native},
                     {"native", Tiling::blocks, GemmKernel::native}};

class Gemm : public testing::TestWithParam<std::tuple<GemmCase, Way>> {};

std::vector<float> run(GemmProblem& problem, const GemmCase& c, const Way& way,
                       int multiprocessors) {
  const GemmArgs args = problem.args(way.tiling);
  const TestStream stream;
  launch_gemm(device_facts(0).layout, c.codec, way.tiling, args, problem.most_items(way.tiling),
              multiprocessors, stream.get(), way.kernel);
  synchronize(stream.get());
  return problem.out();
}

TEST_P(Gemm, IsThePlainSum) {
  const auto& [c, way] = GetParam();
  if (!way.there()) return;
  GemmProblem problem(c, device_facts(0).layout);
  const std::vector<float> got = run(problem, c, way, 3);
  for (int64_t p = 0; p < problem.positions(); ++p)
    for (int64_t r = 0; r < c.rows; ++r) {
      double size = 0;
      const double want = problem.want(p, r, &size);
      const double tolerance = 4e-7 * std::sqrt(static_cast<double>(c.cols)) * size + 1e-30;
      const auto number = static_cast<double>(got[static_cast<size_t>(p * c.rows + r)]);
      ASSERT_TRUE(std::abs(number - want) <= tolerance)
          << "position " << p << ", row " << r << ": got " << number << ", want " << want
          << " within " << tolerance;
    }
}

// What a row comes to does not depend on how the batch was cut. The simulator's wgmma adds in the order of its mma, so
// that this finds a number of K in a wrong place there too.
TEST_P(Gemm, IsTheSameInEveryTiling) {
  const auto& [c, way] = GetParam();
  if (way.tiling == Tiling::narrow || way.kernel == GemmKernel::native || !way.there()) return;
  GemmProblem problem(c, device_facts(0).layout);
  const std::vector<float> narrow = run(problem, c, kWays[0], 2);
  const std::vector<float> cut = run(problem, c, way, 2);
  ASSERT_EQ(narrow.size(), cut.size());
  EXPECT_EQ(std::memcmp(narrow.data(), cut.data(), cut.size() * sizeof(float)), 0);
}

const GemmCase kGemmCases[] = {
    {.label = "bf16", .codec = Codec::bf16},
    {.label = "bf16_gated", .codec = Codec::bf16, .gated = true, .bends = true, .bias = true},
    {.label = "bf16_alone_odd",
     .codec = Codec::bf16,
     .bends = true,
     .rows = 16,
     .cols = 41,
     .counts = {1}},
    {.label = "bf16_many_rows", .codec = Codec::bf16, .rows = 160, .cols = 64, .counts = {130, 1}},
    {.label = "bf16_long", .codec = Codec::bf16, .rows = 288, .cols = 480, .counts = {5}},
    {.label = "f32_gated", .codec = Codec::f32, .gated = true, .bends = true, .cols = 50},
    {.label = "f32_bias", .codec = Codec::f32, .bias = true},
    {.label = "fp8_tensor", .codec = Codec::fp8, .scales = ScaleKind::per_panel},
    {.label = "fp8_block",
     .codec = Codec::fp8,
     .scales = ScaleKind::per_panel,
     .scale_chunks = 4,
     .group = 128,
     .gated = true,
     .bends = true,
     .cols = 300},
    {.label = "fp8_channel_token",
     .codec = Codec::fp8,
     .scales = ScaleKind::per_row,
     .group = 0,
     .cols = 160},
    {.label = "fp8_rows_of_blocks",
     .codec = Codec::fp8,
     .scales = ScaleKind::per_row,
     .scale_chunks = 2,
     .cols = 200},
    {.label = "fp8_groups_of_32",
     .codec = Codec::fp8,
     .scales = ScaleKind::per_row,
     .scale_chunks = 1,
     .group = 32,
     .gated = true,
     .bends = true,
     .cols = 96},
    {.label = "mxfp4", .codec = Codec::mxfp4, .scales = ScaleKind::powers, .cols = 160},
    {.label = "mxfp4_gated",
     .codec = Codec::mxfp4,
     .scales = ScaleKind::powers,
     .group = 128,
     .gated = true,
     .bends = true,
     .bias = true,
     .cols = 288,
     .counts = {0, 66, 1, 9}},
    {.label = "mxfp4_mxfp8",
     .codec = Codec::mxfp4,
     .scales = ScaleKind::powers,
     .group = 32,
     .bias = true,
     .rows = 80,
     .cols = 150,
     .counts = {1, 37, 0, 9},
     .mx_rows = true},
    {.label = "mxfp4_mxfp8_gated",
     .codec = Codec::mxfp4,
     .scales = ScaleKind::powers,
     .group = 32,
     .gated = true,
     .bends = true,
     .cols = 64,
     .mx_rows = true},
};

std::string name_of(const testing::TestParamInfo<std::tuple<GemmCase, Way>>& info) {
  return std::string(std::get<0>(info.param).label) + "_" + std::get<1>(info.param).word;
}

std::vector<std::tuple<GemmCase, Way>> cases() {
  std::vector<std::tuple<GemmCase, Way>> all;
  for (const GemmCase& c : kGemmCases)
    for (const Way& way : kWays)
      if (way.takes(c)) all.emplace_back(c, way);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cases, Gemm, testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace moert::gpu
