// Public bug reports about loading: names, silent loss, layouts. Tests are named after the reports.
// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>

#include <moert/abi/problem.h>

#include "tiny_model.hpp"
#include "weights/plan.hpp"

namespace moert::bugs {
namespace {

// A cast made a copy, the bytes landed in the copy, and experts kept what the memory held.
TEST(BugLoading, N9_ResultsDoNotDependOnWhatTheMemoryHeld) {
  const fs::path folder = olmoe({4, 2, 6, 5, 2}).save();
  const std::vector<float> hidden = random_rows(8, 6, 7);
  std::vector<std::vector<float>> outputs;
  for (const int fill : {0x00, 0xff, 0x5a}) {
    ::mallopt(M_PERTURB, fill);
    Loaded loaded(folder);
    outputs.push_back(loaded.forward(hidden, 1));
  }
  ::mallopt(M_PERTURB, 0);
  EXPECT_EQ(outputs[0], outputs[1]);
  EXPECT_EQ(outputs[0], outputs[2]);
}

// A non-strict load dropped tensors whose prefix differed by one segment.
TEST(BugLoading, N12_APrefixThatDiffersByASegmentIsAnErrorWithTheNearestName) {
  Tiny tiny = olmoe();
  Tiny renamed = tiny;
  renamed.tensors.clear();
  for (const auto& [name, tensor] : tiny.tensors) {
    std::string other = name;
    const size_t at = other.find(".experts.");
    if (at != std::string::npos) other.replace(at, 9, ".switch_mlp.");
    renamed.tensors[other] = tensor;
  }
  const Error error = error_of([&] { Loaded loaded(renamed); });
  EXPECT_EQ(error.fault(), Fault::input);
  expect_text(error, {"model.layers.0.mlp.experts.0.gate_proj.weight",
                      "model.layers.0.mlp.switch_mlp.0.gate_proj.weight"});
}

// One release is fused, the other per expert: one family reads both, to the same bits.
Tiny fused(const Tiny& tiny, const Sizes& s) {
  Tiny made;
  made.config = tiny.config;
  const std::string mlp = "model.layers.0.mlp.";
  Tensor gate_up{{s.experts, 2 * s.intermediate, s.hidden}, {}},
      down{{s.experts, s.hidden, s.intermediate}, {}};
  for (int64_t e = 0; e < s.experts; ++e) {
    const std::string expert = mlp + "experts." + std::to_string(e) + ".";
    for (const char* part : {"gate_proj.weight", "up_proj.weight"}) {
      const auto& values = tiny.tensors.at(expert + part).values;
      gate_up.values.insert(gate_up.values.end(), values.begin(), values.end());
    }
    const auto& values = tiny.tensors.at(expert + "down_proj.weight").values;
    down.values.insert(down.values.end(), values.begin(), values.end());
  }
  made.tensors = {{mlp + "gate.weight", tiny.tensors.at(mlp + "gate.weight")},
                  {mlp + "experts.gate_up_proj", gate_up},
                  {mlp + "experts.down_proj", down}};
  return made;
}

TEST(BugLoading, N14_N23_FusedAndPerExpertFilesGiveTheSameBits) {
  for (const Sizes& s : {Sizes{4, 2, 6, 5, 1}, Sizes{3, 2, 4, 2, 1}, Sizes{2, 1, 3, 3, 1}}) {
    const Tiny tiny = olmoe(s);
    Loaded one(tiny), other(fused(tiny, s));
    const std::vector<float> hidden = random_rows(9, s.hidden, 11);
    EXPECT_EQ(one.forward(hidden), other.forward(hidden))
        << "H " << s.hidden << ", I " << s.intermediate;
    EXPECT_EQ(one.routing.ids, other.routing.ids);
  }
}

// Draft layers in another layout than the main ones broke the load.
TEST(BugLoading, N15_DraftLayersOfAnotherLayoutAreLeftOutByRule) {
  const Sizes s{4, 2, 6, 5, 1};
  Tiny tiny = deepseek(s, 1, 1);
  tiny.config["num_nextn_predict_layers"] = 1;
  const std::string draft = "model.layers.1.";
  tiny.random(draft + "mlp.experts.gate_up_proj", {s.experts, 2 * s.intermediate, s.hidden});
  tiny.random(draft + "mlp.experts.down_proj", {s.experts, s.hidden, s.intermediate});
  tiny.random(draft + "eh_proj.weight", {s.hidden, 2 * s.hidden});
  Loaded loaded(tiny);
  EXPECT_EQ(loaded.model().plan().layers.size(), 1u);
  EXPECT_EQ(loaded.model().plan().ignored, 3u);
}

// gate and up changed places, or one of them was written twice.
TEST(BugLoading, N21_GateIsGateAndUpIsUp) {
  const Sizes s{2, 1, 3, 2, 1};
  Tiny tiny = olmoe(s);
  for (int64_t e = 0; e < s.experts; ++e) {
    const std::string expert = "model.layers.0.mlp.experts." + std::to_string(e) + ".";
    tiny.set(expert + "gate_proj.weight", {2, 3}, std::vector<float>(6, 1.0f));
    tiny.set(expert + "up_proj.weight", {2, 3}, std::vector<float>(6, 2.0f));
  }
  for (const Tiny& layout : {tiny, fused(tiny, s)}) {
    const fs::path folder = layout.save();
    const spec::Model model = families().resolve(folder);
    const spec::Tensors rules = families().tensors("olmoe");
    const weights::Checkpoint checkpoint(folder);
    const weights::Plan plan = weights::make_plan(model, rules, checkpoint);
    int seen = 0;
    for (const weights::Source& source : plan.layers.at(0).sources) {
      if (source.target != spec::Target::expert || source.part == MOERT_PART_DOWN) continue;
      const TensorView view = weights::source_view(checkpoint, source);
      ++seen;
      for (int64_t r = 0; r < 2; ++r)
        for (int64_t c = 0; c < 3; ++c)
          EXPECT_EQ(read_f32(*view.get(), r * view.get()->strides[0] + c * view.get()->strides[1]),
                    source.part == MOERT_PART_GATE ? 1.0f : 2.0f);
    }
    EXPECT_EQ(seen, 4);
  }
}

// I rows where 2I belong, and the other way round, were taken.
TEST(BugLoading, N24_AWrongHeightIsRefusedWithBothShapes) {
  const Sizes s{2, 1, 4, 6, 1};
  Tiny tiny = fused(olmoe(s), s);
  tiny.random("model.layers.0.mlp.experts.gate_up_proj", {2, 6, 4});
  expect_text(error_of([&] { Loaded loaded(tiny); }),
              {"experts.gate_up_proj", "[2, 6, 4]", "[2, 12, 4]"});
  Tiny other = olmoe(s);
  other.random("model.layers.0.mlp.experts.1.gate_proj.weight", {12, 4});
  expect_text(error_of([&] { Loaded loaded(other); }),
              {"experts.1.gate_proj.weight", "[12, 4]", "[6, 4]"});
}

// A bias that was never written held values up to 7500.
TEST(BugLoading, N55_AMissingSelectionBiasIsAnError) {
  Tiny tiny = deepseek({4, 2, 6, 5, 1}, 1, 1);
  tiny.tensors.erase("model.layers.0.mlp.gate.e_score_correction_bias");
  const Error error = error_of([&] { Loaded loaded(tiny); });
  EXPECT_EQ(error.fault(), Fault::input);
  expect_text(error, {"model.layers.0.mlp.gate.e_score_correction_bias"});
}

}  // namespace
}  // namespace moert::bugs
