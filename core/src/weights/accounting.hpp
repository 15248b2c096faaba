// The accounting behind make_plan: where every tensor goes, and where every part comes from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "spec/family.hpp"
#include "spec/model.hpp"
#include "weights/plan.hpp"
#include "weights/rules.hpp"

namespace moert::weights {

inline constexpr uint32_t kExpertParts = 3, kSharedParts = 4, kRouterParts = 6, kRoles = 2;
inline constexpr uint32_t kFirstLayerPart = 4, kLayerParts = 4;  // MOERT_PART_LATENT_DOWN ...

// A tensor that a rule takes.
struct Hit {
  uint32_t tensor = 0, rule = 0, layer = 0;  // layer: index into Model::layers
  int64_t expert = 0;
};

// One use: construct, run.
class Accounting {
 public:
  Accounting(const spec::Model& model, const spec::Tensors& tensors, const Checkpoint& checkpoint);
  Plan run();

 private:
  enum class State : uint8_t { open, used, ignored, found };
  static constexpr uint32_t kFree = std::numeric_limits<uint32_t>::max();

  const TensorInfo& tensor(uint32_t i) const { return checkpoint_.tensors()[i]; }
  const spec::MoELayer& layer(uint32_t i) const { return model_.layers[i]; }
  static int64_t slots_of(const spec::MoELayer& layer);
  uint32_t& slot(uint32_t layer_index, spec::Target target, int64_t expert, uint32_t part,
                 uint32_t role);
  void found(Finding::Kind kind, uint32_t i, const std::string& detail);

  void match();
  void match_one(uint32_t i, const NameShape& shape);
  const spec::MoELayer* moe_layer(int64_t id) const;  // nullptr: a dense layer, or none
  bool is_zero_expert(const CompiledRule& rule, const Numbers& numbers) const;
  std::string out_of_range(const CompiledRule& rule, const Numbers& numbers, uint32_t* layer_index,
                           size_t* prefix_end, size_t name_size) const;
  // Parts of a layer under one layout: those whose tensors have shapes that fit, and all.
  struct LayoutCount {
    int64_t fitting = 0, present = 0;
    void add(const LayoutCount& other) {
      fitting += other.fitting;
      present += other.present;
    }
    auto operator<=>(const LayoutCount&) const = default;
  };
  void choose_layouts();
  void find_ambiguous(size_t layer_index, const std::vector<LayoutCount>& counts);
  bool shape_fits(const Hit& hit, const spec::TensorRule& rule) const;
  void assign();
  void feed(const Hit& hit);
  bool take_slots(const Hit& hit, const spec::TensorRule& rule);
  bool fits(const Hit& hit, const spec::TensorRule& rule);
  std::string one_dtype(LayerPlan* layer_plan, spec::Target target);
  void sort_sources(LayerPlan* layer_plan) const;
  void find_missing(uint32_t layer_index);
  void need(uint32_t layer_index, spec::Target target, int64_t expert, uint32_t part,
            uint32_t role);
  const CompiledRule* usual_rule(uint32_t layer_index, spec::Target target, uint32_t part,
                                 uint32_t role) const;
  void finish();

  const spec::Model& model_;
  const spec::Tensors& tensors_;
  const Rules rules_;
  const Checkpoint& checkpoint_;
  std::vector<State> state_;                        // per tensor
  std::vector<uint64_t> hits_per_rule_;             // per layer and rule
  std::vector<uint64_t> hits_of_rule_;              // per rule
  std::map<std::string, uint64_t> hits_of_prefix_;  // per beginning of names, up to the layer
  std::vector<uint64_t> ignored_;                   // per rule of Tensors::others
  uint64_t zero_expert_tensors_ = 0;
  std::vector<int64_t> bases_;   // per layer: its first slot
  std::vector<uint32_t> slots_;  // per part: the tensor that feeds it
  std::vector<Hit> hits_;
  std::vector<int> layouts_;                         // per layer
  std::vector<std::pair<uint32_t, Finding>> found_;  // tensor, finding
  std::unordered_set<std::string> missing_;
  std::map<std::tuple<spec::Target, uint32_t, uint32_t>, const CompiledRule*>
      usual_;  // of one layer
  Plan plan_;
};

}  // namespace moert::weights
