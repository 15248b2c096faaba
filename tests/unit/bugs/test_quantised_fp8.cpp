// Public bug reports about FP8 weights. Tests are named after the reports.
// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>

#include "quantised_layer.hpp"

namespace moert::bugs {
namespace {

Release fp8_release(const Sizes& s, const Fp8Blocks& blocks, std::vector<QuantisedExpert>* experts,
                    uint32_t seed = 1) {
  Release release(qwen3(s), seed);
  release.config["quantization_config"] = fp8_config(blocks.rows, blocks.cols);
  *experts = put_experts(s, 0, [&](const std::string& module, int64_t rows, int64_t cols) {
    return release.fp8(module, rows, cols, blocks);
  });
  return release;
}

// Twice the width divides into blocks, the width does not.
TEST(BugFp8, N26_WidthThatEndsInsideABlock) {
  const Sizes s{.experts = 2, .top_k = 1, .hidden = 256, .intermediate = 320};
  std::vector<QuantisedExpert> experts;
  const Release release = fp8_release(s, {128, 128}, &experts);
  const fs::path folder = release.save();
  EXPECT_EQ(
      weights::Checkpoint(folder).find(qwen3_expert(0, 0) + "up_proj.weight_scale_inv")->shape,
      (std::vector<int64_t>{3, 2}));
  expect_decoded(folder, qwen3_expert(0, 1) + "gate_proj.weight", MOERT_PART_GATE, experts[1].gate);
  expect_decoded(folder, qwen3_expert(0, 1) + "up_proj.weight", MOERT_PART_UP, experts[1].up);
  expect_decoded(folder, qwen3_expert(0, 1) + "down_proj.weight", MOERT_PART_DOWN, experts[1].down);
  Loaded loaded(folder);
  expect_layer(loaded, experts, by_groups_of_128(false));
}

// The same width in a tensor of both halves: a row of blocks would be gate's and up's.
TEST(BugFp8, N26_BlocksAcrossGateAndUpAreRefused) {
  const Sizes s{.experts = 2, .top_k = 1, .hidden = 256, .intermediate = 320};
  Release release(qwen3(s));
  release.config["quantization_config"] = fp8_config(128, 128);
  const std::string name = "model.layers.0.mlp.experts.";
  release.edit.add(name + "gate_up_proj", {2, 640, 256}, MOERT_DTYPE_F8_E4M3FN);
  release.edit.add(name + "gate_up_proj_scale_inv", {2, 5, 2});
  release.edit.add(name + "down_proj", {2, 256, 320}, MOERT_DTYPE_F8_E4M3FN);
  release.edit.add(name + "down_proj_scale_inv", {2, 2, 3});
  expect_text(error_of([&] { Loaded loaded(release.save()); }),
              {"gate_up_proj_scale_inv", "128 rows do not divide 320"});
}

// Blocks at the end are partial.
TEST(BugFp8, N28_RowsThatAreNoWholeBlocks) {
  const Sizes s{.experts = 2, .top_k = 2, .hidden = 256, .intermediate = 576};
  std::vector<QuantisedExpert> experts;
  const fs::path folder = fp8_release(s, {128, 128}, &experts).save();
  const weights::Checkpoint checkpoint(folder);
  const std::string gate = qwen3_expert(0, 0) + "gate_proj.weight";
  EXPECT_EQ(checkpoint.find(gate)->shape, (std::vector<int64_t>{576, 256}));
  EXPECT_EQ(checkpoint.find(gate + "_scale_inv")->shape, (std::vector<int64_t>{5, 2}));
  expect_decoded(folder, gate, MOERT_PART_GATE, experts[0].gate);
  Loaded loaded(folder);
  expect_layer(loaded, experts, by_groups_of_128(false));
}

TEST(BugFp8, N28_TooFewScalesAreRefusedWithBothShapes) {
  const Sizes s{.experts = 2, .top_k = 2, .hidden = 256, .intermediate = 576};
  std::vector<QuantisedExpert> experts;
  Release release = fp8_release(s, {128, 128}, &experts);
  release.edit.reshape(qwen3_expert(0, 1) + "up_proj.weight_scale_inv", {4, 2});
  expect_text(error_of([&] { Loaded loaded(release.save()); }),
              {"experts.1.up_proj.weight_scale_inv", "f32 [4, 2]", "expected [5, 2]"});
}

constexpr double kGlobal = 0.5;

// A scale for each row, and one above all of them.
Release with_global(const Sizes& s, std::vector<QuantisedExpert>* experts) {
  const Fp8Blocks channel{.rows = 1, .name = "weight_scale"};
  Release release(qwen3(s));
  release.config["quantization_config"] = {{"quant_method", "fp8"},
                                           {"activation_scheme", "dynamic"}};
  *experts = put_experts(s, 0, [&](const std::string& module, int64_t rows, int64_t cols) {
    Weight weight = release.fp8(module, rows, cols, channel);
    release.put_number(module + ".weight_global_scale", {}, static_cast<float>(kGlobal));
    for (double& value : weight.values) value *= kGlobal;
    return weight;
  });
  return release;
}

TEST(BugFp8, N29_TheSecondLevelScaleIsUsed) {
  std::vector<QuantisedExpert> experts;
  const fs::path folder = with_global({}, &experts).save();
  for (int64_t e = 0; e < 4; ++e)
    expect_decoded(folder, qwen3_expert(0, e) + "down_proj.weight", MOERT_PART_DOWN,
                   experts[static_cast<size_t>(e)].down);
}

// Which way it enters must be said; and where the neighbours have one, an expert without is damaged.
TEST(BugFp8, N29_DroppingTheSecondLevelScaleIsAnError) {
  std::vector<QuantisedExpert> experts;
  Release silent = with_global({}, &experts);
  silent.config.erase("quantization_config");
  expect_text(error_of([&] { Loaded loaded(silent.save()); }),
              {"gate_proj.weight_global_scale", "multiplied or divided"});
  Release dropped = with_global({}, &experts);
  dropped.edit.drop(qwen3_expert(0, 2) + "up_proj.weight_global_scale");
  expect_text(error_of([&] { Loaded loaded(dropped.save()); }),
              {"missing", "experts.2.up_proj.weight_global_scale"});
}

// Experts without a gate: a reader that counted two halves left one of them unwritten.
constexpr int64_t kWide = 48, kInner = 40;

Tiny nemotron() {
  Tiny tiny;
  tiny.config = {{"model_type", "nemotron_h"},
                 {"hidden_size", kWide},
                 {"moe_intermediate_size", kInner},
                 {"n_routed_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"num_hidden_layers", 1},
                 {"norm_topk_prob", true},
                 {"hybrid_override_pattern", "E"},
                 {"n_group", 1},
                 {"topk_group", 1},
                 {"routed_scaling_factor", 1.0},
                 {"mlp_hidden_act", "relu2"},
                 {"torch_dtype", "float32"}};
  const std::string mixer = "backbone.layers.0.mixer.";
  tiny.random(mixer + "gate.weight", {4, kWide}, 0.1f);
  tiny.set(mixer + "gate.e_score_correction_bias", {4}, std::vector<float>(4, 0.0f));
  for (int e = 0; e < 4; ++e) {
    const std::string expert = mixer + "experts." + std::to_string(e) + ".";
    tiny.random(expert + "up_proj.weight", {kInner, kWide});
    tiny.random(expert + "down_proj.weight", {kWide, kInner});
  }
  return tiny;
}

// ModelOpt's FP8: one scale for a matrix, one for what it multiplies.
Release in_fp8(const Tiny& plain) {
  Release release(plain);
  release.config["quantization_config"] = {{"quant_method", "modelopt"}, {"quant_algo", "FP8"}};
  for (const auto& [name, tensor] : plain.tensors) {
    if (name.find("_proj.weight") == std::string::npos) continue;
    float amax = 0;
    for (const float value : tensor.values) amax = std::max(amax, std::abs(value));
    std::vector<uint8_t> codes;
    for (const float value : tensor.values) {
      const float number = nearest_e4m3(value / (amax / 448));
      int code = 0;
      while (e4m3_number(code) != static_cast<double>(std::abs(number))) ++code;
      codes.push_back(static_cast<uint8_t>(code | (number < 0 ? 0x80 : 0)));
    }
    release.edit.drop(name);
    release.put(name, MOERT_DTYPE_F8_E4M3FN, tensor.shape, codes);
    release.put_number(name + "_scale", {}, amax / 448);
    const bool is_up = name.find("up_proj") != std::string::npos;
    release.put_number(name.substr(0, name.rfind('.')) + ".input_scale", {},
                       (is_up ? 4.0f : 200.0f) / 448);
  }
  return release;
}

TEST(BugFp8, N31_ExpertsWithoutAGateEqualTheirFloatsWithinTheFormatsError) {
  const Tiny plain = nemotron();
  const std::vector<float> rows = random_rows(5, kWide, 3);
  Loaded exact(plain);
  const std::vector<float> want = exact.forward(rows);
  const fs::path folder = in_fp8(plain).save();
  std::vector<std::vector<float>> got;
  for (const int fill : {0xff, 0x5a}) {
    ::mallopt(M_PERTURB, fill);
    Loaded loaded(folder);
    EXPECT_EQ(loaded.model().plan().ignored, 0u);
    got.push_back(loaded.forward(rows));
    EXPECT_EQ(loaded.routing.ids, exact.routing.ids);
  }
  ::mallopt(M_PERTURB, 0);
  EXPECT_EQ(got[0], got[1]);
  double difference = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    difference += std::pow(static_cast<double>(got[0][i] - want[i]), 2);
    norm += std::pow(static_cast<double>(want[i]), 2);
  }
  // A code is off by 1/16 at most, 1/28 on average; there are four, and one is squared.
  EXPECT_LE(std::sqrt(difference / norm), 0.1);
  EXPECT_GT(difference, 0);
}

// All codes of a format, one scale of 1.
std::vector<float> all_codes(const std::string& scheme, uint32_t dtype) {
  const runtime::Quant quant = quant_method("quant.fp8", scheme);
  std::vector<uint8_t> codes(256);
  std::iota(codes.begin(), codes.end(), uint8_t{0});
  const float one = 1;
  const TensorView scale(&one, MOERT_DTYPE_F32, {});
  moert_quant_view_t record{};
  record.struct_size = sizeof record;
  record.scheme = scheme.c_str();
  record.layout = "canonical";
  record.scale = scale.get();
  TensorView view(static_cast<const void*>(codes.data()), dtype, {16, 16});
  view.set_quant(&record);
  std::vector<float> values(256);
  moert_piece_t piece{};
  piece.struct_size = sizeof piece;
  piece.tensor = view.get();
  piece.quant = quant.table();
  piece.quant_self = quant.self();
  decode_weight(piece, "all codes", 16, 16, values.data());
  return values;
}

TEST(BugFp8, N32_EveryCodeOfBothKindsOfE4M3) {
  const std::vector<float> fn = all_codes("fp8_e4m3fn.tensor.f32", MOERT_DTYPE_F8_E4M3FN);
  const std::vector<float> fnuz = all_codes("fp8_e4m3fnuz.tensor.f32", MOERT_DTYPE_F8_E4M3FNUZ);
  for (int code = 0; code < 256; ++code) {
    const auto at = static_cast<size_t>(code);
    if (code == 0x7f || code == 0xff)
      EXPECT_TRUE(std::isnan(fn[at])) << code;
    else
      EXPECT_EQ(static_cast<double>(fn[at]), e4m3_number(code)) << code;
    if (code == 0x80)
      EXPECT_TRUE(std::isnan(fnuz[at])) << code;
    else
      EXPECT_EQ(static_cast<double>(fnuz[at]), e4m3_number(code, 8)) << code;
  }
  EXPECT_TRUE(std::signbit(fn[0x80]));
}

// The largest activation is 1000: what it and its neighbour become tells the limit that was used.
TEST(BugFp8, N34_RowsSaturateAtTheLimitOfTheirOwnFormat) {
  const auto row_of = [](const char* scheme) {
    const runtime::Quant quant = quant_method("quant.fp8", scheme, {{"activations", "token"}});
    std::vector<float> row = {1000, -3.9f, 250};
    moert_error_t error{};
    error.struct_size = sizeof error;
    EXPECT_EQ(quant->quantize_activations(quant.self(), row.data(), 1, 3, nullptr, &error),
              MOERT_OK);
    return row;
  };
  const std::vector<float> fn = row_of("fp8_e4m3fn.channel.f32");
  EXPECT_FLOAT_EQ(fn[0], 1000);
  EXPECT_FLOAT_EQ(fn[1], -nearest_e4m3(3.9f * 448 / 1000) * 1000 / 448);
  EXPECT_FLOAT_EQ(fn[2], 112 * 1000.0f / 448);
  const std::vector<float> fnuz = row_of("fp8_e4m3fnuz.channel.f32");
  EXPECT_FLOAT_EQ(fnuz[0], 1000);
  // Half as far from 0 the same codes mean half as much: those of twice the number.
  EXPECT_FLOAT_EQ(fnuz[1], -nearest_e4m3(2 * 3.9f * 240 / 1000) / 2 * 1000 / 240);
  EXPECT_FLOAT_EQ(fnuz[2], 60 * 1000.0f / 240);
}

// Scales of FP8 weights that are FP8 themselves are no exponents, and no format that is known.
TEST(BugFp8, N35_ScalesInE4M3BesideFp8AreRefused) {
  std::vector<QuantisedExpert> experts;
  Release release = fp8_release({}, {128, 128}, &experts);
  release.edit.retype(qwen3_expert(0, 3) + "down_proj.weight_scale_inv", MOERT_DTYPE_F8_E4M3FN);
  expect_text(error_of([&] { Loaded loaded(release.save()); }),
              {"experts.3.down_proj.weight_scale_inv", "f8_e4m3fn [1, 1]",
               "expected f32, bf16, f16 or f8_e8m0"});
}

}  // namespace
}  // namespace moert::bugs
