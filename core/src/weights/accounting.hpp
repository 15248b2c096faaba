// The accounting behind make_plan: where every tensor goes, and where every part comes from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "spec/family.hpp"
#include "spec/model.hpp"
#include "weights/formats.hpp"
#include "weights/plan.hpp"
#include "weights/rules.hpp"
#include "weights/targets.hpp"

namespace moert::weights {

inline constexpr uint32_t kExpertParts = 3, kSharedParts = 4, kRouterParts = 6, kRoles = 2;
// Tensors that a part may have: weight, bias, and the weight's companions.
inline constexpr uint32_t kKinds = kRoles + kParams - 1;
constexpr uint32_t kind_of(uint32_t role, uint32_t param) {
  return param == 0 ? role : kRoles + param - 1;
}
inline constexpr uint32_t kFirstLayerPart = 4, kLayerParts = 4;  // MOERT_PART_LATENT_DOWN ...

// A tensor that a rule takes.
struct Hit {
  uint32_t tensor = 0, rule = 0, layer = 0;  // layer: index into Model::layers
  int64_t expert = 0;
  uint32_t param = 0;  // MOERT_PARAM_*: the weight of the rule, or what stands beside it
  Spelling spelling = Spelling::plain;
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
                 uint32_t kind);
  void found(Finding::Kind kind, uint32_t i, const std::string& detail);

  void match();
  void match_one(uint32_t i, const NameShape& shape);
  struct Miss;  // why a name that a rule fits was not taken
  bool match_name(uint32_t i, const std::string& name, const NameShape& shape, uint32_t param,
                  Spelling spelling, Miss* miss);
  bool match_companion(uint32_t i, Miss* miss);
  bool match_ignored(uint32_t i, const std::string& name, const NameShape& shape,
                     size_t prefix_end);
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
  void check_kept_dtype(const Hit& hit);
  // accounting_formats.cpp
  void read_announced();
  const spec::WeightFormat* announced(std::string_view module) const;
  void find_formats(uint32_t layer_index);
  StoredWeight stored(uint32_t layer_index, const Source& source);
  uint32_t format_index(uint32_t layer_index, const Source& source);
  bool shape_tensor_agrees(const StoredWeight& stored);
  void report(uint32_t layer_index, const Source& source, const Judgement& judgement);
  void take_companions(uint32_t layer_index, Source* source);
  std::string_view like_companion(uint32_t layer_index, const Source& source, uint32_t kind);
  void find_lost_companions(uint32_t layer_index, uint32_t param);
  bool is_excluded(uint32_t layer_index, const Source& source) const;
  void note_difference(uint32_t layer_index, const Source& source, const Judgement& judgement);
  std::string scheme_text(const LayerPlan& layer_plan, spec::Target target) const;
  void finish_warnings();
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
  std::vector<std::pair<Targets, const spec::WeightFormat*>> groups_;  // announced formats
  std::optional<Targets> excluded_;
  std::map<uint32_t, Spelling> spellings_;  // of packed weights, by tensor
  std::map<uint32_t, uint32_t> formats_;    // by tensor, of one layer
  struct Difference {
    uint64_t count = 0;
    std::string first, found, announced;
  };
  Difference plain_, other_;  // weights that are not of the announced format
  uint64_t unread_input_scales_ = 0;
  std::unordered_set<uint32_t> counted_input_scales_;
  std::map<std::tuple<spec::Target, uint32_t, uint32_t>, const CompiledRule*>
      usual_;  // of one layer
  Plan plan_;
};

}  // namespace moert::weights
