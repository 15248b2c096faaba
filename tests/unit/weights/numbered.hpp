// Checkpoints whose elements are their own positions, so that a window is what index arithmetic says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <numeric>
#include <utility>

#include <moert/abi/moe_runner.h>
#include <moert/abi/router.h>
#include <moert/abi/shared_experts.h>

#include "unit/weights/support.hpp"

namespace moert::weights {

// Names begin at `prefix`, in which {layer} stands.
inline spec::TensorRule expert_rule(const std::string& name, std::vector<uint32_t> parts,
                                    const std::string& prefix = "l.{layer}.") {
  spec::TensorRule rule = rule_of(spec::Target::expert, prefix + name, std::move(parts));
  rule.stacked = name.find("{expert}") == std::string::npos;
  return rule;
}

struct Part {
  std::vector<int64_t> shape;
  std::vector<float> values;  // row by row
};

// Layer 1 of two, layer 0 is dense; sizes that no transposition leaves as they are.
class Numbered : public ::testing::Test {
 protected:
  static constexpr int64_t kH = 5, kI = 3, kE = 4;

  Numbered() {
    model.hidden_size = kH;
    model.num_layers = 2;
    spec::MoELayer layer;
    layer.layer_id = 1;
    layer.intermediate_size = kI;
    layer.routing.num_experts = kE;
    layer.routing.top_k = 2;
    model.layers = {layer};
  }

  spec::MoELayer& layer() { return model.layers[0]; }
  // 0, 1, 2, ... in the order of the file.
  void number(const std::string& name, const std::vector<int64_t>& shape) {
    int64_t n = 1;
    for (const int64_t size : shape) n *= size;
    std::vector<float> values(static_cast<size_t>(n));
    std::iota(values.begin(), values.end(), 0.0f);
    edit.add_f32(name, shape, values);
  }
  // A tensor for each part of each expert, and the gate.
  void add_split(const std::string& prefix = "l.1.") {
    for (int64_t e = 0; e < kE; ++e) {
      const std::string expert = prefix + "e." + std::to_string(e);
      number(expert + ".gate", {kI, kH});
      number(expert + ".up", {kI, kH});
      number(expert + ".down", {kH, kI});
    }
    number(prefix + "router", {kE, kH});
  }
  static spec::Layout split_layout(const std::string& prefix = "l.{layer}.") {
    return {"split",
            {expert_rule("e.{expert}.gate", {MOERT_PART_GATE}, prefix),
             expert_rule("e.{expert}.up", {MOERT_PART_UP}, prefix),
             expert_rule("e.{expert}.down", {MOERT_PART_DOWN}, prefix)}};
  }
  void add_rule(spec::Target target, const std::string& name, uint32_t part) {
    tensors.others.push_back(rule_of(target, name, {part}));
  }

  Plan plan() {
    const auto file = test_folder() / "model.safetensors";
    edit.write(file);
    checkpoint.emplace(file);
    return make_plan(model, tensors, *checkpoint);
  }
  void expect_fits() {
    const Plan found = plan();
    ASSERT_EQ(texts_of(found), std::vector<std::string>{}) << found.findings.front().detail;
  }
  void expect_one(const std::string& text, const std::string& detail) {
    const Plan found = plan();
    ASSERT_EQ(texts_of(found), std::vector<std::string>{text});
    EXPECT_NE(found.findings[0].detail.find(detail), std::string::npos) << found.findings[0].detail;
  }

  // The window of one part; fails the test if the plan has none, or more than one.
  Part read(const Plan& from, spec::Target target, uint32_t part, int64_t expert = 0,
            uint32_t role = MOERT_ROLE_WEIGHT) const {
    Part result;
    int found = 0;
    for (const Source& source : from.layers[0].sources) {
      if (source.target != target || source.expert != expert || source.part != part ||
          source.role != role)
        continue;
      ++found;
      const TensorView view = source_view(*checkpoint, source);
      const moert_tensor_t& t = *view.get();
      result.shape.assign(t.shape, t.shape + t.rank);
      for (int64_t r = 0; r < t.shape[0]; ++r)
        for (int64_t c = 0; c < (t.rank > 1 ? t.shape[1] : 1); ++c)
          result.values.push_back(
              read_f32(t, r * t.strides[0] + (t.rank > 1 ? c * t.strides[1] : 0)));
    }
    EXPECT_EQ(found, 1) << "sources of expert " << expert << ", part " << part << ", role " << role;
    return result;
  }

  spec::Model model;
  spec::Tensors tensors;
  testing::SafetensorsEdit edit;
  std::optional<Checkpoint> checkpoint;
};

}  // namespace moert::weights
