// The format of a weight, from what is announced and what its tensors are.
// SPDX-License-Identifier: Apache-2.0
#include "unit/weights/judged.hpp"

namespace moert::weights {
namespace {

class Formats : public ::testing::TestWithParam<Case> {};

TEST_P(Formats, AreFound) {
  const Judgement judgement = judged(GetParam());
  ASSERT_TRUE(judgement.format) << judgement.detail;
  EXPECT_EQ(judgement.format->scheme.text(), GetParam().want);
  EXPECT_EQ(judgement.as_announced, GetParam().as_announced);
}

INSTANTIATE_TEST_SUITE_P(
    Floats, Formats,
    ::testing::Values(
        Case{"bf16", {}, {kBf16, {64, 96}}, {}, "bf16"},
        Case{"f64", {}, {MOERT_DTYPE_F64, {64, 96}}, {}, "f64"},
        Case{"bf16_where_fp8_is_announced", kBlock, {kBf16, {64, 96}}, {}, "bf16", false},
        Case{"bf16_where_none_is_announced", {"none"}, {kBf16, {64, 96}}, {}, "bf16"},
        Case{"f16_where_a_plugins_scheme_is_announced",
             {"acme3"},
             {kF16, {64, 96}},
             {},
             "f16",
             false}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Fp8, Formats,
    ::testing::Values(Case{"blocks",
                           kBlock,
                           {kE4m3, {64, 96}},
                           kBlockScale,
                           "fp8_e4m3fn.block32x32.f32, activations group128"},
                      Case{"partial_blocks",
                           {"fp8", "block40x40"},
                           {kE4m3, {64, 96}},
                           {{kScale, {kBf16, {2, 3}}}},
                           "fp8_e4m3fn.block40x40.bf16"},
                      Case{"exponents",
                           kBlock,
                           {kE4m3, {64, 96}},
                           {{kScale, {kE8m0, {2, 3}}}},
                           "fp8_e4m3fn.block32x32.e8m0, activations group128"},
                      Case{"exponents_as_bytes_where_announced",
                           {"fp8", "block32x32", "group128_ue8m0"},
                           {kE4m3, {64, 96}},
                           {{kScale, {kU8, {2, 3}}}},
                           "fp8_e4m3fn.block32x32.e8m0, activations group128_ue8m0"},
                      Case{"a_scale_alone",
                           {"fp8", "", "token"},
                           {kE4m3, {64, 96}},
                           {{kScale, {kF32, {}}}},
                           "fp8_e4m3fn.tensor.f32, activations token"},
                      Case{"a_scale_for_rows",
                           {"fp8", "", "token"},
                           {kE4m3, {64, 96}},
                           {{kScale, {kF32, {64, 1}}}},
                           "fp8_e4m3fn.channel.f32, activations token"},
                      Case{"a_scale_for_rows_in_a_vector",
                           {},
                           {kE4m3, {64, 96}},
                           {{kScale, {kF16, {64}}}},
                           "fp8_e4m3fn.channel.f16"},
                      Case{"e5m2",
                           {},
                           {MOERT_DTYPE_F8_E5M2, {64, 96}},
                           {{kScale, {kF32, {1}}}},
                           "fp8_e5m2.tensor.f32"},
                      Case{"fnuz",
                           {},
                           {MOERT_DTYPE_F8_E4M3FNUZ, {64, 96}},
                           {{kScale, {kF32, {1}}}},
                           "fp8_e4m3fnuz.tensor.f32"},
                      Case{"static",
                           {"fp8", "tensor", "static"},
                           {kE4m3, {64, 96}},
                           {{kScale, {kF32, {}}}, {kInput, {kF32, {1}}}},
                           "fp8_e4m3fn.tensor.f32, activations static"},
                      Case{"an_input_scale_that_is_not_read",
                           {"fp8", "tensor", "none"},
                           {kE4m3, {64, 96}},
                           {{kScale, {kF32, {}}}, {kInput, {kF32, {}}}},
                           "fp8_e4m3fn.tensor.f32"},
                      Case{"a_second_scale",
                           {"fp8", "channel", "", "divide"},
                           {kE4m3, {64, 96}},
                           {{kScale, {kF32, {64, 1}}}, {kScale2, {kF32, {}}}},
                           "fp8_e4m3fn.channel.f32, global divide"},
                      Case{"mxfp8",
                           {"mxfp8", "g32", "mxfp8"},
                           {kE4m3, {64, 96}},
                           {{kScale, {kU8, {64, 3}}}},
                           "fp8_e4m3fn.block1x32.e8m0, activations mxfp8"},
                      Case{"where_nvfp4_is_announced",
                           {"nvfp4", "g16", "nvfp4", "multiply"},
                           {kE4m3, {64, 96}},
                           {{kScale, {kF32, {64, 1}}}},
                           "fp8_e4m3fn.channel.f32",
                           false},
                      Case{"stacked_of_experts",
                           {},
                           {kE4m3, {3, 64, 96}},
                           {{kScale, {kF32, {3}}}},
                           "fp8_e4m3fn.tensor.f32",
                           true,
                           64,
                           96,
                           true},
                      Case{"stacked_of_halves",
                           {},
                           {kE4m3, {3, 64, 96}},
                           {{kScale, {kF32, {3, 2}}}},
                           "fp8_e4m3fn.tensor.f32",
                           true,
                           64,
                           96,
                           true,
                           false,
                           true},
                      Case{"stacked_transposed",
                           kBlock,
                           {kE4m3, {3, 96, 64}},
                           {{kScale, {kF32, {3, 3, 2}}}},
                           "fp8_e4m3fn.block32x32.f32, activations group128",
                           true,
                           64,
                           96,
                           true,
                           true,
                           true}),
    name_of);

const std::map<uint32_t, Stored> kNvfp4 = {
    {kScale, {kE4m3, {64, 6}}}, {kScale2, {kF32, {}}}, {kInput, {kF32, {1}}}};

INSTANTIATE_TEST_SUITE_P(
    FourAndEight, Formats,
    ::testing::Values(
        Case{"mxfp4", {}, {kU8, {64, 48}}, {{kScale, {kU8, {64, 3}}}}, "mxfp4.g32.e8m0"},
        Case{"mxfp4_in_signed_bytes",
             {"mxfp4", "g32", "group128"},
             {kI8, {64, 48}},
             {{kScale, {kE8m0, {64, 3}}}},
             "mxfp4.g32.e8m0, activations group128"},
        Case{"mxfp4_in_blocks",
             {"mxfp4"},
             {kU8, {3, 64, 3, 16}},
             {{kScale, {kU8, {3, 64, 3}}}},
             "mxfp4.g32.e8m0",
             true,
             64,
             96,
             true},
        Case{"mxfp4_where_fp8_is_announced",
             kBlock,
             {kU8, {64, 48}},
             {{kScale, {kU8, {64, 3}}}},
             "mxfp4.g32.e8m0",
             false},
        Case{"mxfp4_in_a_dtype_of_its_own",
             {},
             {MOERT_DTYPE_F4_E2M1, {64, 96}},
             {{kScale, {kE8m0, {64, 3}}}},
             "mxfp4.g32.e8m0"},
        Case{"nvfp4",
             {"nvfp4", "g16", "nvfp4", "multiply"},
             {kU8, {64, 48}},
             kNvfp4,
             "nvfp4.g16.e4m3fn, activations nvfp4, global multiply"},
        Case{"nvfp4_of_plain_rows",
             {"nvfp4", "g16", "none", "divide"},
             {kU8, {64, 48}},
             kNvfp4,
             "nvfp4.g16.e4m3fn, global divide"},
        Case{"int8",
             {"int8", "channel", "token"},
             {kI8, {64, 96}},
             {{kScale, {kBf16, {64, 1}}}},
             "int8.channel.bf16, activations token"},
        Case{"int8_unannounced", {}, {kI8, {64, 96}}, {{kScale, {kF32, {1}}}}, "int8.tensor.f32"},
        Case{"packed",
             {"int4_packed", "g32", "none", "", "none"},
             {kI32, {64, 12}},
             {{kScale, {kBf16, {64, 3}}}, {kShapeParam, {MOERT_DTYPE_I64, {2}}}},
             "int4_packed.g32.bf16, zeros none"},
        Case{"packed_with_zeros",
             {"int4_packed", "channel", "", "", "stored"},
             {kI32, {64, 12}},
             {{kScale, {kF16, {64, 1}}}, {kZeros, {kI32, {8, 1}}}},
             "int4_packed.channel.f16, zeros stored"},
        Case{"gptq",
             {"int4_gptq", "g32", "none", "", "plus_one"},
             {kI32, {12, 64}},
             {{kScale, {kF16, {3, 64}}}, {kZeros, {kI32, {3, 8}}}, {kIndex, {kI32, {96}}}},
             "int4_gptq.g32.f16, zeros plus_one"},
        Case{"awq",
             {"int4_awq", "g32", "none", "", "stored"},
             {kI32, {96, 8}},
             {{kScale, {kF16, {3, 64}}}, {kZeros, {kI32, {3, 8}}}},
             "int4_awq.g32.f16, zeros stored"},
        Case{"a_plugins_own",
             {"acme_q3", "", "token"},
             {kU8, {64, 36}},
             {{kScale, {kF32, {64, 3}}}},
             "acme_q3, activations token"}),
    name_of);

TEST(Formats, InputScalesAreReadByStaticAndNvfp4Alone) {
  Format format;
  for (const char* word : {"static", "nvfp4", "token", "group128", "mxfp8"}) {
    format.scheme.options = {{"global", "multiply"}, {"activations", word}};
    const std::string text(word);
    EXPECT_EQ(reads(format, kInput), text == "static" || text == "nvfp4") << word;
    EXPECT_TRUE(reads(format, kScale2));
    EXPECT_FALSE(reads(format, kShapeParam));
  }
}

TEST(Formats, ASchemesNameSaysWhatAConfigWould) {
  struct Case {
    const char *scheme, *kind, *blocks;
  };
  const Case cases[] = {{"fp8", "fp8", ""},
                        {"fp8_e4m3fn", "fp8", ""},
                        {"fp8_e4m3fn.block128x128.f32", "fp8", "block128x128"},
                        {"fp8_e5m2.tensor", "fp8", "tensor"},
                        {"mxfp4", "mxfp4", ""},
                        {"nvfp4.g16.e4m3fn", "nvfp4", "g16"},
                        {"int4_gptq.g128.f16", "int4_gptq", "g128"},
                        {"int8.channel.bf16", "int8", "channel"},
                        {"acme_q3.g8", "acme_q3.g8", ""},
                        {"fp8x.tensor", "fp8x.tensor", ""},
                        {"bf16", "bf16", ""},
                        {".f32", ".f32", ""},
                        {"", "", ""}};
  for (const auto& [scheme, kind, blocks] : cases) {
    const spec::WeightFormat format = announced_by(scheme);
    EXPECT_EQ(format.kind, kind) << scheme;
    EXPECT_EQ(format.blocks, blocks) << scheme;
  }
}

TEST(Formats, BlockSizesAreReadFromWords) {
  EXPECT_EQ(block_size_of("tensor"), (BlockSize{0, 0}));
  EXPECT_EQ(block_size_of("channel"), (BlockSize{1, 0}));
  EXPECT_EQ(block_size_of("g32"), (BlockSize{1, 32}));
  EXPECT_EQ(block_size_of("block128x64"), (BlockSize{128, 64}));
  for (const char* bad : {"", "g", "g0", "g-1", "g32x", "g65537", "g99999999999999999999", "block",
                          "block128", "blockx128", "block128x", "block0x128", "block128x128x1",
                          "block 128x128", "channels", "G32"})
    EXPECT_FALSE(block_size_of(bad)) << bad;
}

}  // namespace
}  // namespace moert::weights
