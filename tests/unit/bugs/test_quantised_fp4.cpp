// Public bug reports about four-bit weights and scales that are exponents. Tests are named after the reports.
// SPDX-License-Identifier: Apache-2.0
#include "quantised_layer.hpp"

namespace moert::bugs {
namespace {

Json nvfp4_config() {
  const Json numbers = {{"dynamic", false}, {"num_bits", 4}, {"type", "float"}, {"group_size", 16}};
  return {{"quant_method", "modelopt"},
          {"quant_algo", "NVFP4"},
          {"ignore", {"lm_head", "model.layers.0.mlp.gate", "model.layers.0.self_attn*"}},
          {"config_groups",
           {{"group_0",
             {{"input_activations", numbers}, {"weights", numbers}, {"targets", {"Linear"}}}}}}};
}

constexpr float kInputScale = 0.002f;

// ModelOpt's names. Single numbers are stored with and without a dimension.
Release nvfp4_release(const Sizes& s, std::vector<QuantisedExpert>* experts) {
  Release release(qwen3(s));
  release.config["quantization_config"] = nvfp4_config();
  *experts = put_experts(s, 0, [&](const std::string& module, int64_t rows, int64_t cols) {
    const double global = std::ldexp(static_cast<double>(release.number(9, 15)), -5);
    const std::vector<int64_t> shape(release.number(0, 1) != 0 ? 1 : 0, 1);
    release.put_number(module + ".weight_scale_2", shape, static_cast<float>(global));
    release.put_number(module + ".input_scale", shape, kInputScale);
    return release.fp4(module + ".weight", module + ".weight_scale", rows, cols,
                       MOERT_DTYPE_F8_E4M3FN, global);
  });
  return release;
}

TEST(BugFp4, N11_SingleNumbersOfAnyRankAreAllUsed) {
  const Sizes s{.experts = 4, .top_k = 2, .hidden = 64, .intermediate = 48};
  std::vector<QuantisedExpert> experts;
  const Release release = nvfp4_release(s, &experts);
  Loaded loaded(release.save());
  EXPECT_EQ(loaded.model().plan().used, release.edit.tensors.size());
  EXPECT_EQ(loaded.model().plan().ignored, 0u);
  EXPECT_EQ(loaded.model().plan().warnings, std::vector<std::string>{});
  expect_layer(loaded, experts, by_nvfp4(kInputScale));
}

TEST(BugFp4, N11_AMissingInputScaleIsNamed) {
  std::vector<QuantisedExpert> experts;
  Release release = nvfp4_release({4, 2, 64, 48, 1}, &experts);
  release.edit.drop(qwen3_expert(0, 3) + "down_proj.input_scale");
  expect_text(error_of([&] { Loaded loaded(release.save()); }),
              {"missing", qwen3_expert(0, 3) + "down_proj.input_scale", "expert 3, down"});
}

// Dropping the second level takes an expert off by a constant: it is an error (the report is of FP8).
TEST(BugFp4, N29_AMissingSecondLevelScaleIsNamed) {
  std::vector<QuantisedExpert> experts;
  Release release = nvfp4_release({4, 2, 64, 48, 1}, &experts);
  release.edit.drop(qwen3_expert(0, 1) + "up_proj.weight_scale_2");
  expect_text(error_of([&] { Loaded loaded(release.save()); }),
              {"missing", qwen3_expert(0, 1) + "up_proj.weight_scale_2"});
}

// DeepSeek-V4's own names: whatever the format, a scale is called ".scale".
struct V4 {
  Release release;
  std::vector<QuantisedExpert> experts;
  QuantisedExpert shared;
};

V4 deepseek_v4(const std::string& expert_dtype) {
  const int64_t hidden = 160, inner = 64, count = 4;
  Tiny tiny;
  tiny.config = {{"model_type", "deepseek_v4"},
                 {"expert_dtype", expert_dtype},
                 {"hidden_act", "silu"},
                 {"hidden_size", hidden},
                 {"moe_intermediate_size", inner},
                 {"n_routed_experts", count},
                 {"n_shared_experts", 1},
                 {"num_experts_per_tok", 2},
                 {"num_hidden_layers", 1},
                 {"num_hash_layers", 0},
                 {"norm_topk_prob", true},
                 {"routed_scaling_factor", 1.0},
                 {"scoring_func", "sqrtsoftplus"},
                 {"swiglu_limit", 10.0},
                 {"topk_method", "noaux_tc"},
                 {"torch_dtype", "bfloat16"},
                 {"quantization_config", fp8_config(128, 128)}};
  tiny.config["quantization_config"]["scale_fmt"] = "ue8m0";
  tiny.random("layers.0.ffn.gate.weight", {count, hidden}, 0.1f);
  tiny.set("layers.0.ffn.gate.bias", {count}, std::vector<float>(count, 0.0f));
  V4 made{Release(tiny), {}, {}};
  const auto fp8 = [&](const std::string& module, int64_t rows, int64_t cols) {
    return made.release.fp8(module, rows, cols, {128, 128, "scale", MOERT_DTYPE_F8_E8M0});
  };
  const auto routed = [&](const std::string& module, int64_t rows, int64_t cols) {
    if (expert_dtype == "fp8") return fp8(module, rows, cols);
    return made.release.fp4(module + ".weight", module + ".scale", rows, cols, MOERT_DTYPE_F8_E8M0,
                            1, MOERT_DTYPE_I8);
  };
  for (int64_t e = 0; e < count; ++e) {
    const std::string name = "layers.0.ffn.experts." + std::to_string(e);
    made.experts.push_back({routed(name + ".w1", inner, hidden),
                            routed(name + ".w3", inner, hidden),
                            routed(name + ".w2", hidden, inner)});
  }
  const std::string name = "layers.0.ffn.shared_experts";
  made.shared = {fp8(name + ".w1", inner, hidden), fp8(name + ".w3", inner, hidden),
                 fp8(name + ".w2", hidden, inner)};
  return made;
}

double clamped_silu(double gate, double up) {
  return silu(std::min(gate, 10.0), std::clamp(up, -10.0, 10.0));
}

TEST(BugFp4, N17_ScaleIsTheScaleWhateverTheFormat) {
  for (const char* dtype : {"fp4", "fp8"}) {
    SCOPED_TRACE(dtype);
    const V4 made = deepseek_v4(dtype);
    Loaded loaded(made.release.save());
    EXPECT_EQ(loaded.model().plan().used, made.release.edit.tensors.size());
    const RowRule rule = by_groups_of_128(true);
    expect_layer(loaded, made.experts, rule, 0, clamped_silu, [&](const std::vector<float>& row) {
      return output_of(made.shared, row, rule, clamped_silu);
    });
  }
}

// A byte of an exponent was read as the number that it spells.
TEST(BugFp4, N37_BytesOfAnExponentArePowersOfTwo) {
  const Sizes s{.experts = 2, .top_k = 1, .hidden = 256, .intermediate = 256};
  Release release(qwen3(s));
  release.config["quantization_config"] = fp8_config(128, 128);
  release.config["quantization_config"]["scale_fmt"] = "ue8m0";
  put_experts(s, 0, [&](const std::string& module, int64_t rows, int64_t cols) {
    return release.fp8(module, rows, cols, {128, 128, "weight_scale_inv", MOERT_DTYPE_F8_E8M0});
  });
  const std::string name = qwen3_expert(0, 1) + "up_proj.weight";
  constexpr uint8_t kBytes[] = {0, 120, 127, 254};
  std::memcpy(release.edit.at(name + "_scale_inv").data.data(), kBytes, sizeof kBytes);
  Weight want{256, 256, {}};
  for (int64_t r = 0; r < 256; ++r)
    for (int64_t c = 0; c < 256; ++c)
      want.values.push_back(e8m0_number(kBytes[r / 128 * 2 + c / 128]));
  for (std::byte& code : release.edit.at(name).data) code = std::byte{0x38};  // 1
  EXPECT_EQ(want.values[128], 0.0078125);
  expect_decoded(release.save(), name, MOERT_PART_UP, want);
  release.edit.at(name + "_scale_inv").data[2] = std::byte{255};
  expect_text(error_of([&] { Loaded loaded(release.save()); }),
              {name, "scale at [1, 0]", "nan", "expected a finite number"});
}

// The scales of FP4 may be E4M3: 0x39 is 1.125, no power of two.
TEST(BugFp4, N35_ScalesInE4M3AreNoExponents) {
  std::vector<QuantisedExpert> experts;
  Release release = nvfp4_release({2, 1, 64, 48, 1}, &experts);
  const std::string name = qwen3_expert(0, 0) + "gate_proj.weight";
  for (std::byte& scale : release.edit.at(name + "_scale").data) scale = std::byte{0x39};
  for (std::byte& pair : release.edit.at(name).data) pair = std::byte{0x22};  // 1, 1
  const float global = 3;
  std::memcpy(release.edit.at(name + "_scale_2").data.data(), &global, sizeof global);
  const Weight want{48, 64, std::vector<double>(48 * 64, 1.125 * 3)};
  expect_decoded(release.save(), name, MOERT_PART_GATE, want);
}

Release mxfp4_release(const Sizes& s, std::vector<QuantisedExpert>* experts) {
  Release release(qwen3(s));
  release.config["quantization_config"] = {{"quant_method", "mxfp4"}};
  *experts = put_experts(s, 0, [&](const std::string& module, int64_t rows, int64_t cols) {
    return release.fp4(module + ".weight", module + ".weight_scale", rows, cols, MOERT_DTYPE_U8);
  });
  return release;
}

// The order that checkpoints have; the other one exists for views that a plugin is handed.
TEST(BugFp4, N39_TheFirstOfTwoIsInTheLowNibble) {
  std::vector<QuantisedExpert> experts;
  Release release = mxfp4_release({2, 1, 32, 32, 1}, &experts);
  const std::string name = qwen3_expert(0, 0) + "down_proj.weight";
  for (std::byte& scale : release.edit.at(name + "_scale").data) scale = std::byte{127};
  for (std::byte& pair : release.edit.at(name).data) pair = std::byte{0x21};
  Weight want{32, 32, {}};
  for (int i = 0; i < 32 * 32; ++i) want.values.push_back(i % 2 == 0 ? 0.5 : 1.0);
  const fs::path folder = release.save();
  expect_decoded(folder, name, MOERT_PART_DOWN, want);
  // A model file may say that a writer had it the other way round.
  for (double& value : want.values) value = 1.5 - value;
  expect_decoded(folder, name, MOERT_PART_DOWN, want, 0, [](spec::Model& model) {
    ASSERT_TRUE(model.quantization);
    for (spec::FormatGroup& group : model.quantization->groups) group.format.nibbles = "high";
  });
}

// Columns in an order of their own whose groups nobody names would have each others' scales.
TEST(BugFp4, AnnouncedGroupsOfColumnsMustBeThere) {
  const fs::path source = fs::path(MOERT_SOURCE_DIR) / "tests/data/mixtral-gptq";
  const fs::path folder = fresh_folder();
  fs::copy_file(source / "config.json", folder / "config.json");
  weights::Checkpoint checkpoint(source);
  weights::SafetensorsWriter writer;
  for (const weights::TensorInfo& info : checkpoint.tensors())
    if (!info.name.ends_with(".g_idx"))
      writer.add(info.name, info.dtype, info.shape, checkpoint.view(info).get()->data);
  writer.write(folder / "model.safetensors");
  expect_text(error_of([&] { unloaded(folder); }),
              {".w1.g_idx", "columns are announced to be reordered"});
}

// Three groups in a row: one writer padded rows of scales to sixteen.
TEST(BugFp4, N40_RowsOfThreeScales) {
  const Sizes s{.experts = 3, .top_k = 2, .hidden = 96, .intermediate = 96};
  std::vector<QuantisedExpert> experts;
  Release release = mxfp4_release(s, &experts);
  const fs::path folder = release.save();
  const std::string name = qwen3_expert(0, 2) + "gate_proj.weight";
  EXPECT_EQ(release.edit.at(name + "_scale").shape, (std::vector<int64_t>{96, 3}));
  expect_decoded(folder, name, MOERT_PART_GATE, experts[2].gate);
  Loaded loaded(folder);
  expect_layer(loaded, experts, as_it_is);
  release.edit.reshape(name + "_scale", {96, 16});
  expect_text(error_of([&] { Loaded padded(release.save()); }),
              {name + "_scale", "u8 [96, 16]", "expected [96, 3]"});
}

}  // namespace
}  // namespace moert::bugs
