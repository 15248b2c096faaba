// Matrix instructions of one architecture, asked for by the option `gemm`: numbers, and what is refused.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "gpu/experts/special.hpp"

namespace moert::gpu {
namespace {

Treatment treated(const char* scheme, const char* activations, uint32_t dtype) {
  Treatment treatment;
  EXPECT_TRUE(treat(scheme, activations, dtype, &treatment));
  return treatment;
}

TEST(SpecialGemm, WordsOfTheOption) {
  EXPECT_EQ(gemm_kernel(""), GemmKernel::mma);
  EXPECT_EQ(gemm_kernel("mma"), GemmKernel::mma);
  EXPECT_EQ(gemm_kernel("wgmma"), GemmKernel::wgmma);
  EXPECT_EQ(gemm_kernel("native"), GemmKernel::native);
  try {
    gemm_kernel("cublas");
    FAIL() << "no error";
  } catch (const PluginError& error) {
    EXPECT_EQ(error.code(), MOERT_INVALID_ARGUMENT);
    EXPECT_NE(std::string(error.what()).find("'cublas', expected mma, wgmma or native"),
              std::string::npos)
        << error.what();
  }
}

struct Asked {
  GemmKernel kernel;
  const char *scheme, *activations;
  uint32_t dtype;
  const char* refusal;  // part of it; empty: it is served
};
const Asked kAsked[] = {
    {GemmKernel::mma, "f32", "none", MOERT_DTYPE_F32, ""},
    {GemmKernel::wgmma, "bf16", "none", MOERT_DTYPE_BF16, ""},
    {GemmKernel::wgmma, "fp8_e4m3fn.channel.f32", "token", MOERT_DTYPE_BF16, ""},
    {GemmKernel::wgmma, "bf16", "none", MOERT_DTYPE_F32, "decoded to f32"},
    {GemmKernel::native, "mxfp4.g32.e8m0", "mxfp8", MOERT_DTYPE_BF16, ""},
    {GemmKernel::native, "mxfp4.g32.e8m0", "none", MOERT_DTYPE_BF16, "rows quantised by mxfp8"},
    {GemmKernel::native, "bf16", "none", MOERT_DTYPE_BF16, "weights of mxfp4"},
};

TEST(SpecialGemm, IsRefusedForOtherNumbersAndDevices) {
  const DeviceFacts facts = device_facts(0);
  for (const Asked& asked : kAsked) {
    SCOPED_TRACE(std::string(asked.scheme) + " " + asked.activations);
    const Treatment treatment = treated(asked.scheme, asked.activations, asked.dtype);
    std::string want = asked.refusal;
    if (asked.kernel != GemmKernel::mma)
      if (const std::string missing = special_gemm_missing(asked.kernel, facts); !missing.empty())
        want = missing;
    const std::string got = gemm_refusal(asked.kernel, facts, treatment);
    EXPECT_EQ(got.empty(), want.empty()) << got;
    EXPECT_NE(got.find(want), std::string::npos) << got;
  }
}

}  // namespace
}  // namespace moert::gpu
