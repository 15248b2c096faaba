// The accounting of checkpoints whose weights are several tensors each.
// SPDX-License-Identifier: Apache-2.0
#include <moert/abi/quant_method.h>
#include <cstring>

#include "unit/weights/numbered.hpp"

namespace moert::weights {
namespace {

// Layers 1 and 2 of three; experts of [32, 64] twice and [64, 32].
class QuantisedPlans : public Numbered {
 protected:
  static constexpr int64_t kWide = 64, kInner = 32, kCount = 3;

  QuantisedPlans() {
    model.hidden_size = kWide;
    model.num_layers = 3;
    layer().intermediate_size = kInner;
    layer().routing.num_experts = kCount;
    spec::Layout split{"split", {}};
    for (const char* part : {"gate", "up", "down"})
      split.rules.push_back(expert_rule("e.{expert}." + std::string(part) + ".weight",
                                        {static_cast<uint32_t>(split.rules.size())}));
    spec::Layout fused{"fused",
                       {expert_rule("e.gate_up", {MOERT_PART_GATE, MOERT_PART_UP}),
                        expert_rule("e.down", {MOERT_PART_DOWN})}};
    tensors.experts = {split, fused};
    add_rule(spec::Target::router, "l.{layer}.router", MOERT_ROUTER_GATE_WEIGHT);
  }
  static std::vector<int64_t> shape_of(const std::string& part, int64_t divide = 1) {
    return part == "down" ? std::vector<int64_t>{kWide, kInner / divide}
                          : std::vector<int64_t>{kInner, kWide / divide};
  }
  // One matrix in a format; everything is 0.
  void put(const std::string& format, const std::string& module, const std::string& part) {
    const std::string name = module + part + ".weight";
    const std::vector<int64_t> shape = shape_of(part);
    if (format == "bf16") return edit.add(name, shape, MOERT_DTYPE_BF16);
    if (format == "mxfp4") {
      edit.add(name, shape_of(part, 2), MOERT_DTYPE_U8);
      return edit.add(name + "_scale", shape_of(part, 32), MOERT_DTYPE_U8);
    }
    edit.add(name, shape, format == "int8" ? MOERT_DTYPE_I8 : MOERT_DTYPE_F8_E4M3FN);
    edit.add(name + "_scale_inv", {shape[0], 1});
  }
  // `format(expert, part)` of every matrix of a layer, and its router.
  void put_layer(int64_t id,
                 const std::function<std::string(int64_t, const std::string&)>& format) {
    const std::string prefix = "l." + std::to_string(id) + ".";
    edit.add(prefix + "router", {kCount, kWide});
    for (int64_t e = 0; e < kCount; ++e)
      for (const char* part : {"gate", "up", "down"})
        put(format(e, part), prefix + "e." + std::to_string(e) + ".", part);
  }
  void put_fp8() {
    put_layer(1, [](int64_t, const std::string&) { return "fp8"; });
  }
  void announce(spec::WeightFormat format, std::vector<std::string> excluded = {}) {
    model.quantization = {"test", {{{}, std::move(format)}}, std::move(excluded)};
  }
  static std::string scheme(const Plan& from, size_t layer_index, int64_t expert, uint32_t part) {
    for (const Source& source : from.layers[layer_index].sources)
      if (source.target == spec::Target::expert && source.expert == expert && source.part == part)
        return source.format == kNoFormat ? "" : from.formats[source.format].scheme.name;
    return "nothing";
  }
};

constexpr const char* kFp8 = "fp8_e4m3fn.channel.f32";

TEST_F(QuantisedPlans, EveryTensorIsUsed) {
  put_fp8();
  const Plan found = plan();
  EXPECT_EQ(texts_of(found), std::vector<std::string>{});
  EXPECT_EQ(found.used, edit.tensors.size());
  EXPECT_EQ(found.ignored, 0u);
  // Rows of such a format may be meant to be rounded; whoever wrote no config for it hears of that.
  ASSERT_EQ(found.warnings.size(), 1u);
  EXPECT_NE(found.warnings[0].find("announces nothing for them"), std::string::npos);
  EXPECT_EQ(found.layers[0].scheme, kFp8);
  EXPECT_EQ(found.formats.size(), 1u);
}

TEST_F(QuantisedPlans, AMissingScaleIsCalledAsItsNeighboursAre) {
  put_fp8();
  edit.drop("l.1.e.2.up.weight_scale_inv");
  expect_one("missing l.1.e.2.up.weight_scale_inv",
             "layer 1, expert 2, up, scale of f8_e4m3fn [32, 64], expected beside it");
}

TEST_F(QuantisedPlans, AScaleOfAnotherShapeOrTypeIsNamed) {
  put_fp8();
  edit.reshape("l.1.e.0.down.weight_scale_inv", {kWide, 2});
  edit.retype("l.1.e.1.gate.weight_scale_inv", MOERT_DTYPE_I32);
  EXPECT_EQ(texts_of(plan()),
            (std::vector<std::string>{"misshapen l.1.e.0.down.weight_scale_inv",
                                      "misshapen l.1.e.1.gate.weight_scale_inv"}));
}

TEST_F(QuantisedPlans, AScaleLeftOverBesideFloatsIsNoCompanion) {
  put_fp8();
  edit.retype("l.1.e.0.gate.weight", MOERT_DTYPE_BF16);
  expect_one("unexpected l.1.e.0.gate.weight_scale_inv",
             "is f32 [32, 1], but the weight beside it is bf16, which has none");
}

TEST_F(QuantisedPlans, TwoScalesForOneWeightAreOneTooMany) {
  put_fp8();
  edit.duplicate("l.1.e.0.gate.weight_scale_inv", "l.1.e.0.gate.weight_scale");
  const Plan found = plan();
  ASSERT_EQ(found.findings.size(), 1u);
  EXPECT_EQ(found.findings[0].kind, Finding::unexpected);
  EXPECT_NE(found.findings[0].detail.find("feeds layer 1, expert 0, gate"), std::string::npos)
      << found.findings[0].detail;
}

TEST_F(QuantisedPlans, AScaleWithoutItsWeightDoesNotStandForIt) {
  put_fp8();
  edit.drop("l.1.e.1.down.weight");
  expect_one("missing l.1.e.1.down.weight", "layer 1, expert 1, down");
}

TEST_F(QuantisedPlans, AScaleOfAnExpertThatIsNotThereIsUnexpected) {
  put_fp8();
  edit.add("l.1.e.7.up.weight_scale_inv", {kInner, 1});
  expect_one("unexpected l.1.e.7.up.weight_scale_inv", "layer 1 has 3 experts");
}

TEST_F(QuantisedPlans, PackedRowsOfAnOddLengthDoNotFit) {
  model.hidden_size = 63;
  put_layer(1, [](int64_t, const std::string&) { return "bf16"; });
  for (testing::EditTensor& tensor : edit.tensors)
    for (int64_t& size : tensor.shape)
      if (size == kWide) size = 63;
  for (testing::EditTensor& tensor : edit.tensors) edit.reshape(tensor.name, tensor.shape);
  edit.retype("l.1.e.0.up.weight", MOERT_DTYPE_U8);
  edit.reshape("l.1.e.0.up.weight", {kInner, 31});
  expect_one("misshapen l.1.e.0.up.weight",
             "is u8 [32, 31], expected [32, 63], or whole groups of packed numbers");
}

TEST_F(QuantisedPlans, ExpertsAndProjectionsMayDiffer) {
  put_layer(1, [](int64_t e, const std::string& part) -> std::string {
    if (e == 1) return part == "down" ? "int8" : "mxfp4";
    return e == 0 ? "fp8" : "bf16";
  });
  const Plan found = plan();
  ASSERT_EQ(texts_of(found), std::vector<std::string>{});
  EXPECT_EQ(found.layers[0].scheme, "mixed");
  EXPECT_EQ(scheme(found, 0, 0, MOERT_PART_GATE), kFp8);
  EXPECT_EQ(scheme(found, 0, 0, MOERT_PART_DOWN), kFp8);
  EXPECT_EQ(scheme(found, 0, 1, MOERT_PART_GATE), "mxfp4.g32.e8m0");
  EXPECT_EQ(scheme(found, 0, 1, MOERT_PART_DOWN), "int8.channel.f32");
  EXPECT_EQ(scheme(found, 0, 2, MOERT_PART_UP), "bf16");
  EXPECT_EQ(found.used, edit.tensors.size());
}

TEST_F(QuantisedPlans, LayersMayDiffer) {
  model.layers.push_back(layer());
  model.layers[1].layer_id = 2;
  put_layer(1, [](int64_t, const std::string&) { return "mxfp4"; });
  put_layer(2, [](int64_t, const std::string&) { return "bf16"; });
  const Plan found = plan();
  ASSERT_EQ(texts_of(found), std::vector<std::string>{});
  EXPECT_EQ(found.layers[0].scheme, "mxfp4.g32.e8m0");
  EXPECT_EQ(found.layers[1].scheme, "bf16");
}

// One weight in three that has no second scale is damaged; a layer of which none has is another format.
TEST_F(QuantisedPlans, ASecondScaleThatOnlySomeHaveIsMissing) {
  announce({"fp8", "channel", "", "multiply", ""});
  put_fp8();
  for (const char* name : {"l.1.e.0.up", "l.1.e.2.up"})
    edit.add(std::string(name) + ".weight_global_scale", {});
  expect_one("missing l.1.e.1.up.weight_global_scale", "layer 1, expert 1, up, second scale");
}

TEST_F(QuantisedPlans, WhatIsNotAnnouncedHoldsAndIsToldOnce) {
  announce({"nvfp4", "g16", "nvfp4", "multiply", ""});
  put_layer(1, [](int64_t e, const std::string&) { return e == 2 ? "bf16" : "fp8"; });
  const Plan found = plan();
  ASSERT_EQ(texts_of(found), std::vector<std::string>{});
  ASSERT_EQ(found.warnings.size(), 2u);
  EXPECT_NE(found.warnings[0].find("3 weights are bf16 in the files"), std::string::npos)
      << found.warnings[0];
  EXPECT_NE(found.warnings[0].find("'nvfp4'"), std::string::npos) << found.warnings[0];
  EXPECT_NE(found.warnings[1].find("6 weights are " + std::string(kFp8)), std::string::npos)
      << found.warnings[1];
  EXPECT_NE(found.warnings[1].find("The first: l.1.e.0."), std::string::npos) << found.warnings[1];
}

TEST_F(QuantisedPlans, InputScalesThatNobodyReadsAreIgnoredWithTheReason) {
  announce({"fp8", "", "token", "", ""});
  put_fp8();
  for (const char* name : {"l.1.e.0.up", "l.1.e.1.down"})
    edit.add(std::string(name) + ".input_scale", {});
  const Plan found = plan();
  ASSERT_EQ(texts_of(found), std::vector<std::string>{});
  EXPECT_EQ(found.ignored, 2u);
  EXPECT_EQ(found.used, edit.tensors.size() - 2);
  ASSERT_FALSE(found.ignored_by_reason.empty());
  EXPECT_EQ(found.ignored_by_reason.back().second, 2u);
  EXPECT_NE(found.ignored_by_reason.back().first.find("input"), std::string::npos)
      << found.ignored_by_reason.back().first;
}

// Packed in words, as compressed-tensors does, with the shape beside them.
TEST_F(QuantisedPlans, TheShapeBesideWordsMustBeTheModels) {
  announce({"int4_packed", "g32", "none", "", "none"});
  edit.add("l.1.router", {kCount, kWide});
  for (int64_t e = 0; e < kCount; ++e)
    for (const std::string part : {"gate", "up", "down"}) {
      const std::string module = "l.1.e." + std::to_string(e) + "." + part;
      edit.add(module + ".weight_packed", shape_of(part, 8), MOERT_DTYPE_I32);
      edit.add(module + ".weight_scale", shape_of(part, 32), MOERT_DTYPE_BF16);
      edit.add(module + ".weight_shape", {2}, MOERT_DTYPE_I64);
      std::memcpy(edit.tensors.back().data.data(), shape_of(part).data(), 2 * sizeof(int64_t));
    }
  expect_fits();
  const int64_t other[] = {kWide, kInner};
  std::memcpy(edit.at("l.1.e.1.up.weight_shape").data.data(), other, sizeof other);
  const Plan found = plan();
  ASSERT_FALSE(found.findings.empty());
  EXPECT_EQ(texts_of(found).front(), "misshapen l.1.e.1.up.weight_shape");
  EXPECT_NE(found.findings[0].detail.find("says [64, 32], expected [32, 64]"), std::string::npos)
      << found.findings[0].detail;
}

// Scales of what all experts have in one tensor: each expert's window is its own.
TEST_F(QuantisedPlans, ScalesOfStackedExpertsAreReadWhereTheyLie) {
  announce({"fp8", "block8x16", "none", "", ""});
  edit.add("l.1.router", {kCount, kWide});
  edit.add("l.1.e.gate_up", {kCount, 2 * kInner, kWide}, MOERT_DTYPE_F8_E4M3FN);
  number("l.1.e.gate_up_scale_inv", {kCount, 8, 4});
  edit.add("l.1.e.down", {kCount, kWide, kInner}, MOERT_DTYPE_F8_E4M3FN);
  number("l.1.e.down_scale_inv", {kCount, 8, 2});
  const Plan found = plan();
  ASSERT_EQ(texts_of(found), std::vector<std::string>{});
  for (const Source& source : found.layers[0].sources) {
    if (source.target != spec::Target::expert) continue;
    ASSERT_EQ(source.companions.size(), 1u);
    const TensorView view =
        companion_view(*checkpoint, source, found.formats[source.format], source.companions[0]);
    const bool is_down = source.part == MOERT_PART_DOWN;
    const int64_t width = is_down ? 2 : 4, first = source.expert * 8 * width +
                                                   (source.part == MOERT_PART_UP ? 4 * width : 0);
    ASSERT_EQ(view.get()->shape[0], is_down ? 8 : 4);
    ASSERT_EQ(view.get()->shape[1], width);
    for (int64_t r = 0; r < view.get()->shape[0]; ++r)
      for (int64_t c = 0; c < width; ++c)
        EXPECT_EQ(read_f32(*view.get(), r * view.get()->strides[0] + c * view.get()->strides[1]),
                  static_cast<float>(first + r * width + c));
  }
}

// Two numbers were read whatever the tensor held.
TEST_F(QuantisedPlans, AShapeTensorOfAnotherSizeIsRefusedWhateverIsAnnounced) {
  for (const char* kind : {"int8", "somebodys"}) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{0}, {1}, {3}, {}, {1, 2}}) {
      edit.tensors.clear();
      put_layer(1, [](int64_t, const std::string&) { return "int8"; });
      edit.add("l.1.e.2.down.weight_shape", shape, MOERT_DTYPE_I64);
      announce({kind, "", "none", "", ""});
      const std::vector<std::string> texts = texts_of(plan());
      ASSERT_EQ(texts.size(), 1u) << kind << " " << shape.size();
      EXPECT_TRUE(texts[0].ends_with(" l.1.e.2.down.weight_shape")) << texts[0];
    }
  }
}

// What is no matrix has no format, so nothing would read its scale.
TEST_F(QuantisedPlans, AScaleBesideANormIsNoCompanion) {
  layer().expert_norm = "in";
  layer().expert_norm_eps = 1e-6;
  add_rule(spec::Target::layer, "l.{layer}.norm.weight", MOERT_PART_EXPERT_NORM);
  put_layer(1, [](int64_t, const std::string&) { return "bf16"; });
  edit.add("l.1.norm.weight", {kWide});
  EXPECT_EQ(texts_of(plan()), std::vector<std::string>{});
  edit.add("l.1.norm.weight_scale", {1});
  EXPECT_EQ(texts_of(plan()), std::vector<std::string>{"unexpected l.1.norm.weight_scale"});
}

TEST_F(QuantisedPlans, GroupsOfAnotherWidthThanTheFormatHas) {
  put_layer(1, [](int64_t, const std::string&) { return "mxfp4"; });
  announce({"mxfp4", "g16", "none", "", ""});
  EXPECT_FALSE(plan().findings.empty());
  announce({"mxfp4", "g32", "none", "", ""});
  EXPECT_EQ(texts_of(plan()), std::vector<std::string>{});
}

}  // namespace
}  // namespace moert::weights
