// Public bug reports about layouts, tried with the families that they were about. Sizes are unequal, so
// that a transposed or halved tensor cannot pass for another.
// SPDX-License-Identifier: Apache-2.0
#include <moert/abi/problem.h>

#include "family_models.hpp"
#include "weights/plan.hpp"

namespace moert::bugs {
namespace {

const std::string kMlp = "model.language_model.layers.0.mlp.";

// The same model with its experts in another layout.
Tiny stacked(Tiny tiny, const Sizes& s, const Stacking& how = {}) {
  put_stacked(tiny, kMlp + "experts.", plain_experts(s), s, how);
  return tiny;
}
Tiny per_expert(Tiny tiny, const Sizes& s) {
  put_per_expert(tiny, kMlp + "experts.", plain_experts(s), s.hidden);
  return tiny;
}

// One file of the family reads the fused release and the one that is cut into experts.
TEST(BugFamilyLayouts, N14_Qwen3_5ReadsBothOfItsReleases) {
  const Sizes s{4, 2, 6, 5, 1};
  const Tiny bare = qwen("qwen3_5_moe", s, 9);
  Loaded fused(stacked(bare, s)), cut(per_expert(bare, s));
  EXPECT_NE(fused.model().plan().layers.at(0).layout, cut.model().plan().layers.at(0).layout);
  const std::vector<float> rows = random_rows(7, s.hidden, 21);
  EXPECT_EQ(fused.forward(rows), cut.forward(rows));
  EXPECT_EQ(fused.routing.weights, cut.routing.weights);
}

// The draft layer's experts are in the layout that the main layers' are not.
TEST(BugFamilyLayouts, N15_DraftLayersMayUseTheOtherLayout) {
  const Sizes s{4, 2, 6, 5, 1};
  const std::string draft = "mtp.layers.0.mlp.experts.";
  Tiny one = stacked(qwen("qwen3_5_moe", s, 9), s),
       other = per_expert(qwen("qwen3_5_moe", s, 9), s);
  const std::vector<float> rows = random_rows(3, s.hidden, 22);
  Loaded plain(one);
  const std::vector<float> want = plain.forward(rows);
  put_per_expert(one, draft, plain_experts(s), s.hidden);
  put_stacked(other, draft, plain_experts(s), s);
  Loaded fused(one), cut(other);
  EXPECT_EQ(fused.model().plan().ignored, 3u * 4);
  EXPECT_EQ(cut.model().plan().ignored, 2u);
  EXPECT_EQ(fused.forward(rows), want);
  EXPECT_EQ(cut.forward(rows), want);
}

// One fused tensor was matched twice, for gate and for up, and transposed twice.
TEST(BugFamilyLayouts, N18_Qwen3VlTransposedEqualsItsTwins) {
  for (const Sizes& s : {Sizes{4, 2, 16, 12, 1}, Sizes{3, 2, 5, 8, 1}}) {
    const Tiny bare = qwen("qwen3_vl_moe", s);
    Loaded transposed_file(stacked(bare, s, {.is_transposed = true}));
    Loaded straight(stacked(bare, s)), cut(per_expert(bare, s));
    const std::vector<float> rows = random_rows(7, s.hidden, 23);
    const std::vector<float> want = cut.forward(rows);
    EXPECT_EQ(transposed_file.forward(rows), want) << "H " << s.hidden;
    EXPECT_EQ(straight.forward(rows), want) << "H " << s.hidden;
  }
}

// What a Qwen layer gives, from the formulas: softmax, best k, renormalised; a shared expert behind the
// sigmoid of a gate.
std::vector<double> qwen_layer(const Tiny& tiny, const Sizes& s, const std::vector<float>& rows,
                               int64_t shared) {
  const std::vector<PlainExpert> experts = plain_experts(s);
  const auto h = static_cast<size_t>(s.hidden);
  std::vector<double> out(rows.size(), 0.0);
  for (size_t at = 0; at < rows.size(); at += h) {
    const auto add = [&](const PlainExpert& expert, double weight) {
      const std::vector<double> y = output_of(expert, &rows[at], s.hidden);
      for (size_t c = 0; c < h; ++c) out[at + c] += weight * y[c];
    };
    std::vector<double> logits;
    const std::vector<float>& gate = tiny.tensors.at(kMlp + "gate.weight").values;
    for (size_t e = 0; e < experts.size(); ++e)
      logits.push_back(dot(&gate[e * h], &rows[at], s.hidden));
    for (const auto& [expert, weight] : route_renormalised(logits, s.top_k))
      add(experts[expert], weight);
    if (shared == 0) continue;
    const std::vector<float>& row = tiny.tensors.at(kMlp + "shared_expert_gate.weight").values;
    add(plain_expert(s.hidden, shared, 77), sigmoid(dot(row.data(), &rows[at], s.hidden)));
  }
  return out;
}

// An adapter transposed the family that is not transposed.
TEST(BugFamilyLayouts, N20_EachFamilysFusedTensorsAgainstPlainLoops) {
  const Sizes s{4, 2, 48, 32, 1};
  const std::vector<float> rows = random_rows(6, s.hidden, 24);
  const Tiny vl = stacked(qwen("qwen3_vl_moe", s), s, {.is_transposed = true});
  const Tiny text = stacked(qwen("qwen3_5_moe", s, 40), s);
  Loaded one(vl), other(text);
  expect_rows(one.forward(rows), qwen_layer(vl, s, rows, 0), s.hidden, "Qwen3-VL");
  expect_rows(other.forward(rows), qwen_layer(text, s, rows, 40), s.hidden, "Qwen3.5");
  // And the wrong way round it is no file of the family.
  const Error error =
      error_of([&] { Loaded loaded(stacked(qwen("qwen3_5_moe", s), s, {.is_transposed = true})); });
  EXPECT_EQ(error.fault(), Fault::input);
  expect_text(error, {"[4, 32, 48]", "[4, 48, 32]"});
}

Tiny gpt_oss(const Sizes& s, const std::vector<PlainExpert>& experts) {
  Tiny tiny;
  tiny.config = flat_config("gpt_oss", s, "num_experts_per_tok");
  const std::string mlp = "model.layers.0.mlp.";
  tiny.random(mlp + "router.weight", {s.experts, s.hidden});
  tiny.random(mlp + "router.bias", {s.experts});
  put_stacked(tiny, mlp + "experts.", experts, s, {.is_transposed = true, .is_interleaved = true});
  tiny.random(mlp + "experts.gate_up_proj_bias", {s.experts, 2 * s.intermediate});
  tiny.random(mlp + "experts.down_proj_bias", {s.experts, s.hidden});
  return tiny;
}

// What a source's window shows, row by row.
std::vector<float> values_of(const weights::Checkpoint& checkpoint, const weights::Source& source) {
  const TensorView view = weights::source_view(checkpoint, source);
  const moert_tensor_t& t = *view.get();
  std::vector<float> values;
  if (t.rank == 1) {
    for (int64_t i = 0; i < t.shape[0]; ++i) values.push_back(read_f32(t, i * t.strides[0]));
    return values;
  }
  for (int64_t r = 0; r < t.shape[0]; ++r)
    for (int64_t c = 0; c < t.shape[1]; ++c)
      values.push_back(read_f32(t, r * t.strides[0] + c * t.strides[1]));
  return values;
}

// An update of up was written into gate rows: gate is 1 everywhere, up is 2, and so are their biases.
TEST(BugFamilyLayouts, N21_GptOssGateAndUpTakeTurns) {
  const Sizes s{3, 2, 4, 6, 1};
  const auto filled = [&](float value) { return std::vector<float>(4 * 6, value); };
  const std::vector<PlainExpert> experts(3, {filled(1), filled(2), filled(3)});
  Tiny tiny = gpt_oss(s, experts);
  Tensor& bias = tiny.tensors.at("model.layers.0.mlp.experts.gate_up_proj_bias");
  for (size_t i = 0; i < bias.values.size(); ++i) bias.values[i] = i % 2 == 0 ? 1.0f : 2.0f;
  const fs::path folder = tiny.save();
  const spec::Model model = families().resolve(folder);
  const spec::Tensors rules = families().tensors(model);
  const weights::Checkpoint checkpoint(folder);
  const weights::Plan plan = weights::make_plan(model, rules, checkpoint);
  std::map<std::pair<uint32_t, uint32_t>, int> seen;
  for (const weights::Source& source : plan.layers.at(0).sources) {
    if (source.target != spec::Target::expert || source.part == MOERT_PART_DOWN) continue;
    const size_t size = source.role == MOERT_ROLE_BIAS ? 6 : 24;
    EXPECT_EQ(values_of(checkpoint, source),
              std::vector<float>(size, source.part == MOERT_PART_GATE ? 1.0f : 2.0f));
    ++seen[{source.part, source.role}];
  }
  EXPECT_EQ(seen.size(), 4u) << "gate and up, weight and bias";
  for (const auto& [what, count] : seen) EXPECT_EQ(count, 3) << "one for each expert";
}

// And rows keep their places: every number of every expert is where the plain matrix has it.
TEST(BugFamilyLayouts, N21_GptOssKeepsEveryNumberInItsPlace) {
  const Sizes s{3, 2, 4, 6, 1};
  const std::vector<PlainExpert> experts = plain_experts(s);
  const fs::path folder = gpt_oss(s, experts).save();
  const spec::Model model = families().resolve(folder);
  const spec::Tensors rules = families().tensors(model);
  const weights::Checkpoint checkpoint(folder);
  const weights::Plan plan = weights::make_plan(model, rules, checkpoint);
  int seen = 0;
  for (const weights::Source& source : plan.layers.at(0).sources) {
    if (source.target != spec::Target::expert || source.role != MOERT_ROLE_WEIGHT) continue;
    const PlainExpert& expert = experts.at(static_cast<size_t>(source.expert));
    const std::vector<float>& want = source.part == MOERT_PART_GATE ? expert.gate
                                     : source.part == MOERT_PART_UP ? expert.up
                                                                    : expert.down;
    EXPECT_EQ(values_of(checkpoint, source), want) << "expert " << source.expert;
    ++seen;
  }
  EXPECT_EQ(seen, 9);
}

// Nemotron-H: relu2 without a gate, so up has I rows.
Tiny nemotron(const Sizes& s, int64_t rows, bool fused) {
  Tiny tiny;
  tiny.config = {{"model_type", "nemotron_h"},
                 {"hidden_size", s.hidden},
                 {"intermediate_size", 9},
                 {"moe_intermediate_size", s.intermediate},
                 {"num_hidden_layers", 1},
                 {"hybrid_override_pattern", "E"},
                 {"n_routed_experts", s.experts},
                 {"num_experts_per_tok", s.top_k},
                 {"n_group", 1},
                 {"topk_group", 1},
                 {"mlp_hidden_act", "relu2"},
                 {"dtype", "float32"}};
  const std::string mixer = "model.layers.0.mixer.";
  tiny.random(mixer + "gate.weight", {s.experts, s.hidden});
  tiny.random(mixer + "gate.e_score_correction_bias", {s.experts});
  if (fused) {
    tiny.random(mixer + "experts.up_proj", {s.experts, rows, s.hidden});
    tiny.random(mixer + "experts.down_proj", {s.experts, s.hidden, s.intermediate});
    return tiny;
  }
  for (int64_t e = 0; e < s.experts; ++e) {
    const std::string expert = mixer + "experts." + std::to_string(e) + ".";
    tiny.random(expert + "up_proj.weight", {rows, s.hidden});
    tiny.random(expert + "down_proj.weight", {s.hidden, s.intermediate});
  }
  return tiny;
}

// Whether the width is I or 2I was decided by the wrong one of gated and not gated.
TEST(BugFamilyLayouts, N24_WidthsOfGatedAndPlainExpertsAreNotMixedUp) {
  const Sizes s{2, 1, 4, 6, 1};
  for (const bool fused : {false, true}) {
    Loaded fits(nemotron(s, s.intermediate, fused));
    fits.forward(random_rows(2, s.hidden, 25));
    const Error error = error_of([&] { Loaded loaded(nemotron(s, 2 * s.intermediate, fused)); });
    EXPECT_EQ(error.fault(), Fault::input);
    expect_text(error, fused
                           ? std::vector<std::string>{"experts.up_proj", "[2, 12, 4]", "[2, 6, 4]"}
                           : std::vector<std::string>{"up_proj.weight", "[12, 4]", "[6, 4]"});
  }
  Tiny gated = qwen("qwen3_5_moe", s);
  put_stacked(gated, kMlp + "experts.", plain_experts(s), s);
  gated.random(kMlp + "experts.gate_up_proj", {2, 6, 4});
  expect_text(error_of([&] { Loaded loaded(gated); }), {"[2, 6, 4]", "[2, 12, 4]"});
}

}  // namespace
}  // namespace moert::bugs
