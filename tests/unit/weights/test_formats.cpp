// The format of a weight, from what is announced and what its tensors are; and what is said where they do
// not fit each other.
// SPDX-License-Identifier: Apache-2.0
#include <moert/abi/quant_method.h>

#include <map>

#include "unit/weights/support.hpp"
#include "weights/formats.hpp"

namespace moert::weights {
namespace {

constexpr uint32_t kF32 = MOERT_DTYPE_F32, kBf16 = MOERT_DTYPE_BF16, kF16 = MOERT_DTYPE_F16,
                   kE8m0 = MOERT_DTYPE_F8_E8M0, kE4m3 = MOERT_DTYPE_F8_E4M3FN, kU8 = MOERT_DTYPE_U8,
                   kI8 = MOERT_DTYPE_I8, kI32 = MOERT_DTYPE_I32;
constexpr uint32_t kScale = MOERT_PARAM_SCALE, kScale2 = MOERT_PARAM_SCALE2,
                   kZeros = MOERT_PARAM_ZERO_POINT, kIndex = MOERT_PARAM_GROUP_INDEX,
                   kInput = MOERT_PARAM_INPUT_SCALE;
using Shape = std::vector<int64_t>;

struct Stored {
  uint32_t dtype;
  Shape shape;
};

// A weight of [64, 96] unless the case says more.
struct Case {
  const char* name;
  std::vector<std::string> announced;  // kind, blocks, activations, global, zeros; none: nothing is
  Stored weight;
  std::map<uint32_t, Stored> beside;
  std::string want;  // a scheme's text, or the words of a refusal
  bool as_announced = true;
  int64_t out = 64, in = 96;
  bool stacked = false, transposed = false, pair = false;
};
void PrintTo(const Case& tested, std::ostream* out) { *out << tested.name; }

Judgement judged(const Case& tested) {
  std::map<uint32_t, TensorInfo> tensors;
  StoredWeight stored;
  spec::TensorRule rule;
  rule.stacked = tested.stacked;
  rule.transposed = tested.transposed;
  rule.parts.assign(tested.pair ? 2 : 1, 0);
  tensors[0] = {"w", tested.weight.dtype, tested.weight.shape, 0, 0, 0};
  for (const auto& [param, info] : tested.beside)
    tensors[param] = {"beside", info.dtype, info.shape, 0, 0, 0};
  for (const auto& [param, info] : tensors)
    if (param != 0) stored.companions[param] = &info;
  stored.weight = &tensors[0];
  stored.rule = &rule;
  stored.out = tested.out;
  stored.in = tested.in;
  stored.experts = tested.stacked ? 3 : 1;
  spec::WeightFormat format;
  std::string* const words[] = {&format.kind, &format.blocks, &format.activations, &format.global,
                                &format.zeros};
  for (size_t i = 0; i < tested.announced.size(); ++i) *words[i] = tested.announced[i];
  return judge(stored, tested.announced.empty() ? nullptr : &format);
}

std::string name_of(const ::testing::TestParamInfo<Case>& tested) { return tested.param.name; }

class Formats : public ::testing::TestWithParam<Case> {};

TEST_P(Formats, AreFound) {
  const Judgement judgement = judged(GetParam());
  ASSERT_TRUE(judgement.format) << judgement.detail;
  EXPECT_EQ(judgement.format->scheme.text(), GetParam().want);
  EXPECT_EQ(judgement.as_announced, GetParam().as_announced);
}

const std::vector<std::string> kBlock = {"fp8", "block32x32", "group128"};
const std::map<uint32_t, Stored> kBlockScale = {{kScale, {kF32, {2, 3}}}};

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

class Misfits : public ::testing::TestWithParam<Case> {};

TEST_P(Misfits, AreRefusedWithWhatWasFoundAndWhatWasExpected) {
  const Judgement judgement = judged(GetParam());
  EXPECT_FALSE(judgement.format);
  // param: detail
  EXPECT_EQ(std::string(param_text(judgement.param)) +
                (judgement.is_missing ? " missing: " : ": ") + judgement.detail,
            GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    Scales, Misfits,
    ::testing::Values(
        Case{"fp8_without",
             kBlock,
             {kE4m3, {64, 96}},
             {},
             "scale missing: scale of f8_e4m3fn [64, 96], expected beside it"},
        Case{"fp8_of_another_shape",
             kBlock,
             {kE4m3, {64, 96}},
             {{kScale, {kF32, {2, 2}}}},
             "scale: is f32 [2, 2], expected [2, 3]"},
        Case{"fp8_turned",
             kBlock,
             {kE4m3, {64, 96}},
             {{kScale, {kF32, {3, 2}}}},
             "scale: is f32 [3, 2], expected [2, 3]"},
        Case{"fp8_of_bytes",
             kBlock,
             {kE4m3, {64, 96}},
             {{kScale, {kU8, {2, 3}}}},
             "scale: is u8 [2, 3], expected f32, bf16, f16 or f8_e8m0"},
        Case{
            "fp8_of_blocks_unannounced",
            {},
            {kE4m3, {64, 96}},
            kBlockScale,
            "scale: is f32 [2, 3], and nothing says what its numbers are of: expected one, one for "
            "each row, or weight_block_size in the config"},
        Case{"fp8_of_odd_blocks",
             {"fp8", "rows3"},
             {kE4m3, {64, 96}},
             kBlockScale,
             "scale: is f32 [2, 3], but the config announces blocks 'rows3'"},
        Case{
            "fp8_across_halves",
            kBlock,
            {kE4m3, {3, 96, 96}},
            {{kScale, {kF32, {3, 3, 3}}}},
            "scale: is f32 [3, 3, 3], expected blocks that end where gate, up and the experts end: "
            "32 rows do not divide 48",
            true,
            96,
            96,
            true,
            false,
            true},
        Case{"mxfp4_without",
             {},
             {kU8, {64, 48}},
             {},
             "scale missing: scale of u8 [64, 48], expected beside it"},
        Case{"mxfp4_of_floats",
             {},
             {kU8, {64, 48}},
             {{kScale, {kF32, {64, 3}}}},
             "scale: is f32 [64, 3], expected u8 or f8_e8m0 (mxfp4), or f8_e4m3fn (nvfp4)"},
        Case{"mxfp4_padded",
             {},
             {kU8, {64, 48}},
             {{kScale, {kU8, {64, 4}}}},
             "scale: is u8 [64, 4], expected [64, 3]"},
        Case{"mxfp4_of_odd_rows",
             {},
             {kU8, {64, 24}},
             {{kScale, {kU8, {64, 2}}}},
             "weight: is u8 [64, 24], expected rows of whole groups of 32, not of 48",
             true,
             64,
             48},
        Case{"nvfp4_without_a_second",
             {"nvfp4", "g16", "", "multiply"},
             {kU8, {64, 48}},
             {{kScale, {kE4m3, {64, 6}}}},
             "second scale missing: second scale of u8 [64, 48], expected beside it"},
        Case{"nvfp4_unannounced",
             {},
             {kU8, {64, 48}},
             {{kScale, {kE4m3, {64, 6}}}, {kScale2, {kF32, {}}}},
             "second scale: is f32 [], and nothing says whether numbers are multiplied or divided "
             "by "
             "it"},
        Case{"nvfp4_with_a_wide_second",
             {"nvfp4", "g16", "", "multiply"},
             {kU8, {64, 48}},
             {{kScale, {kE4m3, {64, 6}}}, {kScale2, {kF32, {64}}}},
             "second scale: is f32 [64], expected [1, 1]"},
        Case{"nvfp4_with_a_narrow_second",
             {"nvfp4", "g16", "", "multiply"},
             {kU8, {64, 48}},
             {{kScale, {kE4m3, {64, 6}}}, {kScale2, {kBf16, {}}}},
             "second scale: is bf16 [], expected f32"},
        Case{"nvfp4_without_an_input_scale",
             {"nvfp4", "g16", "nvfp4", "multiply"},
             {kU8, {64, 48}},
             {{kScale, {kE4m3, {64, 6}}}, {kScale2, {kF32, {}}}},
             "input scale missing: input scale of u8 [64, 48], since activations are quantised by "
             "it"},
        Case{"static_without_an_input_scale",
             {"fp8", "tensor", "static"},
             {kE4m3, {64, 96}},
             {{kScale, {kF32, {}}}},
             "input scale missing: input scale of f8_e4m3fn [64, 96], since activations are "
             "quantised "
             "by a static one"},
        Case{"left_over_beside_bf16",
             {},
             {kBf16, {64, 96}},
             kBlockScale,
             "scale: is f32 [2, 3], but the weight beside it is bf16, which has none"},
        Case{"zeros_beside_fp8",
             kBlock,
             {kE4m3, {64, 96}},
             {{kScale, {kF32, {2, 3}}}, {kZeros, {kI8, {2, 3}}}},
             "zero point: is i8 [2, 3], but the weight beside it is fp8_e4m3fn.block32x32.f32, "
             "which "
             "has none"},
        Case{"shape_beside_int8",
             {},
             {kI8, {64, 96}},
             {{kScale, {kF32, {1}}}, {kShapeParam, {MOERT_DTYPE_I64, {2}}}},
             "shape: is i64 [2], but the weight beside it is int8.tensor.f32, which has none"}),
    name_of);

const std::vector<std::string> kPacked = {"int4_packed", "g32", "none", "", "none"};

INSTANTIATE_TEST_SUITE_P(
    Weights, Misfits,
    ::testing::Values(
        Case{"unsigned_bytes_are_no_int8",
             {},
             {kU8, {64, 96}},
             {{kScale, {kF32, {1}}}},
             "weight: is u8 [64, 96], expected i8, or four-bit numbers in half as many bytes"},
        Case{"whole_numbers",
             {},
             {MOERT_DTYPE_I64, {64, 96}},
             {},
             "weight: is i64 [64, 96], expected floats, or a format of eight or four bits"},
        Case{"words_unannounced",
             {},
             {kI32, {64, 12}},
             {{kScale, {kBf16, {64, 3}}}},
             "weight: is i32 [64, 12], which several formats pack in ways of their own: expected a "
             "config that announces awq, gptq or pack-quantized"},
        Case{"words_of_another_way",
             {"int4_gptq", "g32", "none", "", "plus_one"},
             {kI32, {64, 12}},
             {{kScale, {kF16, {3, 64}}}, {kZeros, {kI32, {3, 8}}}},
             "weight: is i32 [64, 12], expected i32 [12, 64]"},
        Case{"words_without_scales",
             kPacked,
             {kI32, {64, 12}},
             {},
             "scale missing: scale of i32 [64, 12], expected beside it"},
        Case{"words_with_exponents",
             kPacked,
             {kI32, {64, 12}},
             {{kScale, {kE8m0, {64, 3}}}},
             "scale: is f8_e8m0 [64, 3], expected f16, bf16 or f32"},
        Case{"words_with_other_groups",
             kPacked,
             {kI32, {64, 12}},
             {{kScale, {kF16, {64, 6}}}},
             "scale: is f16 [64, 6], expected [64, 3]"},
        Case{"words_with_odd_groups",
             {"int4_packed", "block2x32"},
             {kI32, {64, 12}},
             {{kScale, {kF16, {64, 3}}}},
             "scale: is f16 [64, 3], but the config announces groups 'block2x32'"},
        Case{"words_without_zeros",
             {"int4_awq", "g32", "", "", "stored"},
             {kI32, {96, 8}},
             {{kScale, {kF16, {3, 64}}}},
             "zero point missing: zero point of i32 [96, 8], expected beside it"},
        Case{"words_with_wide_zeros",
             {"int4_awq", "g32", "", "", "stored"},
             {kI32, {96, 8}},
             {{kScale, {kF16, {3, 64}}}, {kZeros, {kI32, {3, 64}}}},
             "zero point: is i32 [3, 64], expected i32 [3, 8]"},
        Case{
            "words_with_unwanted_zeros",
            kPacked,
            {kI32, {64, 12}},
            {{kScale, {kF16, {64, 3}}}, {kZeros, {kI32, {8, 3}}}},
            "zero point: is i32 [8, 3], but the weight beside it is int4_packed.g32.f16, which has "
            "none"},
        Case{"words_with_a_short_index",
             {"int4_gptq", "g32", "", "", "plus_one"},
             {kI32, {12, 64}},
             {{kScale, {kF16, {3, 64}}}, {kZeros, {kI32, {3, 8}}}, {kIndex, {kI32, {12}}}},
             "group index: is i32 [12], expected i32 [96]"},
        Case{"words_of_all_experts",
             kPacked,
             {kI32, {3, 64, 12}},
             {{kScale, {kF16, {3, 64, 3}}}},
             "weight: is i32 [3, 64, 12], expected a tensor of its own for each expert and part",
             true,
             64,
             96,
             true}),
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
