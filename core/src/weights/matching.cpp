// The accounting: which rule takes a tensor, by its name.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <moert/abi/quant_method.h>

#include "weights/accounting.hpp"
#include "weights/layout.hpp"

namespace moert::weights {

using spec::Target;

void Accounting::match() {
  NameShape shape;
  for (uint32_t i = 0; i < state_.size(); ++i) {
    shape_of(tensor(i).name, &shape);
    match_one(i, shape);
  }
}

struct Accounting::Miss {
  std::string reason;
  size_t prefix_end = 0;
  bool of_dense_layer = false;
};

void Accounting::match_one(uint32_t i, const NameShape& shape) {
  const std::string& name = tensor(i).name;
  Miss miss;
  if (match_name(i, name, shape, MOERT_PARAM_WEIGHT, Spelling::plain, &miss)) return;
  if (match_ignored(i, name, shape, miss.prefix_end) || match_companion(i, &miss)) return;
  if (miss.of_dense_layer) ++plan_.of_dense_layers;
  found(Finding::unexpected, i,
        miss.reason.empty() ? "no rule of the family names it" : miss.reason);
}

// True if the tensor is a part of some layer, or one of an expert that has no weights.
bool Accounting::match_name(uint32_t i, const std::string& name, const NameShape& shape,
                            uint32_t param, Spelling spelling, Miss* miss) {
  bool hit = false;
  for (const uint32_t rule : rules_.candidates(shape)) {
    const spec::TensorRule& by = *rules_.at(rule).rule;
    if (by.target == Target::ignore) continue;
    const bool is_companion = param != MOERT_PARAM_WEIGHT || spelling != Spelling::plain;
    if (is_companion && !is_matrix(by.target, by.parts[0], by.role)) continue;
    const std::optional<Numbers> numbers = rules_.fit(rule, name, shape);
    if (!numbers) continue;
    if (is_zero_expert(rules_.at(rule), *numbers)) {
      ++zero_expert_tensors_;
      state_[i] = State::ignored;
      return true;
    }
    uint32_t layer_index = 0;
    std::string problem =
        out_of_range(rules_.at(rule), *numbers, &layer_index, &miss->prefix_end, name.size());
    if (!problem.empty()) {
      miss->of_dense_layer |= by.target == Target::expert && moe_layer(numbers->layer) == nullptr &&
                              numbers->layer < model_.num_layers;
      miss->reason = std::move(problem);
      continue;
    }
    hits_.push_back({i, rule, layer_index, std::max<int64_t>(numbers->expert, 0), param, spelling});
    if (param == MOERT_PARAM_WEIGHT) {
      ++hits_per_rule_[layer_index * rules_.size() + rule];
      ++hits_of_rule_[rule];
      ++hits_of_prefix_[rules_.at(rule).prefix];
    }
    hit = true;
  }
  return hit;
}

// What belongs to a weight goes where the weight goes.
bool Accounting::match_companion(uint32_t i, Miss* miss) {
  NameShape shape;
  // Several rules may name the weight, in layouts of which one will be chosen: all are hits.
  bool hit = false;
  for_each_base(tensor(i).name, [&](const BaseName& base) {
    shape_of(base.name, &shape);
    if (match_name(i, base.name, shape, base.param, base.spelling, miss)) hit = true;
    if (hit) return base.name.ends_with(".weight");  // nothing else would be its weight
    return match_ignored(i, base.name, shape, miss->prefix_end);
  });
  return hit || state_[i] == State::ignored;
}

bool Accounting::match_ignored(uint32_t i, const std::string& name, const NameShape& shape,
                               size_t prefix_end) {
  const auto has_experts = [this](int64_t id) { return moe_layer(id) != nullptr; };
  const spec::TensorRule* rule = rules_.ignored(name, shape, prefix_end, has_experts);
  if (rule == nullptr) return false;
  ++ignored_[static_cast<size_t>(rule - tensors_.others.data())];
  state_[i] = State::ignored;
  return true;
}

const spec::MoELayer* Accounting::moe_layer(int64_t id) const {
  const auto it =
      std::lower_bound(model_.layers.begin(), model_.layers.end(), id,
                       [](const spec::MoELayer& one, int64_t at) { return one.layer_id < at; });
  return it != model_.layers.end() && it->layer_id == id ? &*it : nullptr;
}

// Some savers write weights for experts that only return their input.
bool Accounting::is_zero_expert(const CompiledRule& rule, const Numbers& numbers) const {
  const spec::MoELayer* layer = moe_layer(numbers.layer);
  return rule.rule->target == Target::expert && !rule.rule->stacked && layer != nullptr &&
         numbers.expert >= layer->routing.num_experts && numbers.expert < layer->routing.rows();
}

// Why the numbers are not the model's; empty, with the layer's index, if they are. `prefix_end` is
// how far an ignore rule must spell the name out to take it nevertheless.
std::string Accounting::out_of_range(const CompiledRule& rule, const Numbers& numbers,
                                     uint32_t* layer_index, size_t* prefix_end,
                                     size_t name_size) const {
  const spec::MoELayer* layer = moe_layer(numbers.layer);
  if (layer == nullptr) {
    *prefix_end = std::max(*prefix_end, numbers.layer_end);
    if (numbers.layer < model_.num_layers)
      return "layer " + std::to_string(numbers.layer) + " is dense";
    return "the model has " + std::to_string(model_.num_layers) + " layers";
  }
  *layer_index = static_cast<uint32_t>(layer - model_.layers.data());
  if (rule.rule->target == Target::expert && !rule.rule->stacked &&
      numbers.expert >= layer->routing.num_experts) {
    *prefix_end = name_size;
    return "layer " + std::to_string(numbers.layer) + " has " +
           std::to_string(layer->routing.num_experts) + " experts";
  }
  return {};
}

}  // namespace moert::weights
