// Formats in the layouts of releases: mixed by expert, projection and layer; transposed; flat.
// SPDX-License-Identifier: Apache-2.0
#include "family_models.hpp"
#include "quantised_layer.hpp"

namespace moert::bugs {
namespace {

// gate is [rows of `from` that begin at `first`], turned where the file has [in, out].
Weight part_of(const Weight& from, int64_t first, int64_t count, bool turn) {
  const int64_t in = turn ? from.rows : from.cols;
  Weight part{count, in, {}};
  for (int64_t r = first; r < first + count; ++r)
    for (int64_t c = 0; c < in; ++c)
      part.values.push_back(
          from.values[static_cast<size_t>(turn ? c * from.cols + r : r * from.cols + c)]);
  return part;
}

TEST(QuantisedLayouts, ExpertsProjectionsAndLayersMayDiffer) {
  const Sizes s{.experts = 4, .top_k = 3, .hidden = 64, .intermediate = 32, .layers = 2};
  Release release(qwen3(s));  // nothing is announced: the tensors tell
  const auto put = [&](int64_t layer, const std::string& module, int64_t rows, int64_t cols) {
    const char digit = module[module.find("experts.") + 8];
    const bool is_down = module.ends_with("down_proj");
    if (layer == 1 || digit == '0') return release.bf16(module + ".weight", rows, cols);
    if (digit == '1' || (digit == '2' && is_down))
      return release.fp8(module, rows, cols,
                         {.rows = 1, .name = "weight_scale", .dtype = MOERT_DTYPE_BF16});
    if (digit == '2') return release.fp8(module, rows, cols, {.name = "weight_scale", .shape = {}});
    return release.fp4(module + ".weight", module + ".weight_scale", rows, cols, MOERT_DTYPE_U8);
  };
  std::vector<std::vector<QuantisedExpert>> layers;
  for (const int64_t layer : {0, 1})
    layers.push_back(
        put_experts(s, layer, [&](const std::string& module, int64_t rows, int64_t cols) {
          return put(layer, module, rows, cols);
        }));
  Loaded loaded(release.save());
  EXPECT_EQ(loaded.model().plan().formats.size(), 4u);
  EXPECT_EQ(loaded.model().plan().layers[0].scheme, "mixed");
  EXPECT_EQ(loaded.model().plan().layers[1].scheme, "bf16");
  for (const size_t layer : {size_t{0}, size_t{1}})
    expect_layer(loaded, layers[layer], as_it_is, layer);
}

// Report 18 has these sizes: six blocks beside each other in each half, eight below.
TEST(QuantisedLayouts, N18_BlocksOfATransposedTensorOfBothHalves) {
  const Sizes s{.experts = 2, .top_k = 1, .hidden = 1024, .intermediate = 768};
  Release release(qwen("qwen3_vl_moe", s));
  release.config["quantization_config"] = fp8_config(128, 128);
  std::vector<QuantisedExpert> experts;
  for (const std::string e : {"0", "1"}) {
    const Weight pair = release.fp8("pair" + e, s.hidden, 2 * s.intermediate, {128, 128});
    const Weight down = release.fp8("down" + e, s.intermediate, s.hidden, {128, 128});
    experts.push_back({part_of(pair, 0, s.intermediate, true),
                       part_of(pair, s.intermediate, s.intermediate, true),
                       part_of(down, 0, s.hidden, true)});
  }
  const std::string to = "model.language_model.layers.0.mlp.experts.";
  join(release, {"pair0.weight", "pair1.weight"}, to + "gate_up_proj", {2, 1024, 1536});
  join(release, {"pair0.weight_scale_inv", "pair1.weight_scale_inv"}, to + "gate_up_proj_scale_inv",
       {2, 8, 12});
  join(release, {"down0.weight", "down1.weight"}, to + "down_proj", {2, 768, 1024});
  join(release, {"down0.weight_scale_inv", "down1.weight_scale_inv"}, to + "down_proj_scale_inv",
       {2, 6, 8});
  const fs::path folder = release.save();
  for (const size_t e : {size_t{0}, size_t{1}}) {
    const auto id = static_cast<int64_t>(e);
    expect_decoded(folder, to + "gate_up_proj", MOERT_PART_GATE, experts[e].gate, id);
    expect_decoded(folder, to + "gate_up_proj", MOERT_PART_UP, experts[e].up, id);
    expect_decoded(folder, to + "down_proj", MOERT_PART_DOWN, experts[e].down, id);
  }
}

// DBRX: experts below each other in one matrix, and w2 used transposed.
Release dbrx(std::vector<QuantisedExpert>* experts, int64_t block) {
  const int64_t hidden = 32, inner = 16, count = 3;
  Tiny tiny;
  tiny.config = {{"model_type", "dbrx"},
                 {"d_model", hidden},
                 {"n_layers", 1},
                 {"dtype", "float32"},
                 {"ffn_config",
                  {{"ffn_hidden_size", inner},
                   {"moe_num_experts", count},
                   {"moe_top_k", 2},
                   {"moe_normalize_expert_weights", 1},
                   {"ffn_act_fn", {{"name", "silu"}}}}},
                 {"quantization_config", fp8_config(block, block)}};
  tiny.random("transformer.blocks.0.ffn.router.layer.weight", {count, hidden}, 0.1f);
  Release release(tiny);
  const std::string mlp = "transformer.blocks.0.ffn.experts.mlp.";
  std::vector<Weight> all;
  for (const char* name : {"w1", "v1", "w2"}) {
    all.push_back(release.fp8(mlp + name, count * inner, hidden, {block, block}));
    release.edit.rename(mlp + name + ".weight", mlp + name);
    release.edit.rename(mlp + name + ".weight_scale_inv", mlp + name + "_scale_inv");
  }
  for (int64_t e = 0; e < count; ++e) {
    const auto rows = [&](const Weight& from) { return part_of(from, e * inner, inner, false); };
    experts->push_back({rows(all[0]), rows(all[1]), part_of(rows(all[2]), 0, hidden, true)});
  }
  return release;
}

TEST(QuantisedLayouts, BlocksOfFlatTensors) {
  std::vector<QuantisedExpert> experts;
  Loaded loaded(dbrx(&experts, 8).save());
  expect_layer(loaded, experts, by_groups_of(8, false));
}

TEST(QuantisedLayouts, BlocksAcrossExpertsOfFlatTensorsAreRefused) {
  std::vector<QuantisedExpert> experts;
  expect_text(error_of([&] { Loaded loaded(dbrx(&experts, 12).save()); }),
              {"w1_scale_inv", "12 rows do not divide 16", "w2_scale_inv"});
}

}  // namespace
}  // namespace moert::bugs
