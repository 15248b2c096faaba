// Which weight gets which scheme, and where it goes. See quantize_config.cpp for what the config says of it.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/quantize_plan.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <moert/abi/quant_method.h>
#include <moert/error.hpp>

#include "runtime/quantize_config.hpp"
#include "weights/companions.hpp"
#include "weights/layout.hpp"
#include "weights/rules.hpp"
#include "weights/targets.hpp"

namespace moert::runtime {

namespace {

using spec::Target;

bool is_plain_float(const weights::Format& format) {
  return format.scheme.name == "bf16" || format.scheme.name == "f16" || format.scheme.name == "f32";
}

class Planner {
 public:
  Planner(const QuantizeSource& source, const QuantizeWishes& wishes, WeightCodec& codec)
      : source_(source), wishes_(wishes), codec_(codec) {}

  QuantizePlan run() {
    main_ = intern(target_scheme(wishes_.scheme, "--scheme"));
    collect();
    exclude();
    override_experts();
    for (Candidate& each : candidates_)
      if (!each.is_outside && !each.excluded && each.target == nullptr) each.target = main_;
    method_ = quantize_method(source_, wanted_schemes(), has_blocks());
    choose_outside();
    split_layers();
    for (const Candidate& each : candidates_)
      if (each.target != nullptr) place(each);
    for (NewWeight& weight : plan_.weights) complete(weight);
    plan_.is_copy = std::all_of(plan_.weights.begin(), plan_.weights.end(),
                                [](const NewWeight& weight) { return weight.unchanged; });
    list_steps();
    describe_quantization(source_, kept_, method_, &plan_);
    return std::move(plan_);
  }

 private:
  struct Candidate {
    const weights::Source* source = nullptr;
    bool is_outside = false;
    size_t layer = kNoLayer;
    const TargetScheme* target = nullptr;  // nullptr: it is copied as it is
    bool excluded = false;
  };

  const TargetScheme* intern(TargetScheme scheme) {
    for (const auto& known : plan_.schemes)
      if (*known == scheme) return known.get();
    return plan_.schemes.emplace_back(std::make_unique<TargetScheme>(std::move(scheme))).get();
  }
  const weights::Format& format(const Candidate& each) const {
    return source_.format_of(*each.source, each.is_outside);
  }
  std::string place_of(const Candidate& each) const {
    return source_.checkpoint.place(*each.source->tensor);
  }
  const spec::MoELayer& layer_of(const Candidate& each) const {
    return source_.model.layers[each.layer];
  }

  void collect();
  void exclude();
  void override_experts();
  void override_by(const spec::ExpertScheme& wish);
  std::vector<const TargetScheme*> wanted_schemes() const;
  bool has_blocks() const;
  void choose_outside();
  void split_layers();
  void split(size_t layer);
  Placement placement(const Candidate& each, const TargetScheme& target) const;
  const spec::TensorRule* rule_for(const Candidate& each, const TargetScheme& target) const;
  bool is_same(const Candidate& each, const TargetScheme& target, const Placement& to) const;
  void place(const Candidate& each);
  void complete(NewWeight& weight);
  void list_steps();

  const QuantizeSource& source_;
  const QuantizeWishes& wishes_;
  WeightCodec& codec_;
  const TargetScheme* main_ = nullptr;
  std::string method_;
  std::vector<Candidate> candidates_;
  std::vector<KeptWeight> kept_;
  std::unordered_set<size_t> split_;  // layers whose stacked tensors become those of single experts
  std::unordered_map<std::string, size_t> by_name_;  // index into the plan's weights
  QuantizePlan plan_;
};

void Planner::collect() {
  for (size_t layer = 0; layer < source_.plan.layers.size(); ++layer)
    for (const weights::Source& source : source_.plan.layers[layer].sources) {
      if (source.format == weights::kNoFormat) continue;
      const bool of_layer = source.target == Target::layer;
      if (of_layer && is_plain_float(source_.plan.formats[source.format])) continue;
      candidates_.push_back({&source, false, layer, nullptr, of_layer});
    }
  for (const weights::Source& source : source_.outside.sources)
    candidates_.push_back({&source, true, kNoLayer, nullptr, false});
}

void Planner::exclude() {
  std::vector<std::string> modules;
  for (const std::string& pattern : wishes_.exclude) {
    const weights::Targets targets({pattern}, "--exclude " + pattern);
    uint64_t fitting = 0;
    for (Candidate& each : candidates_) {
      const std::string name = weights::plain_name(each.source->tensor->name);
      if (!targets.fit(name) && !targets.fit(weights::module_of(name))) continue;
      plan_.excluded += each.excluded ? 0 : 1;
      each.excluded = true;
      ++fitting;
    }
    if (fitting == 0)
      throw Error(Fault::usage,
                  "the pattern '" + pattern + "' fits no weight that would be converted",
                  "--exclude",
                  "give a module such as " +
                      std::string(weights::module_of(candidates_.front().source->tensor->name)) +
                      ", a glob with '*', or an expression after 're:'");
  }
}

void Planner::override_experts() {
  for (const spec::ExpertScheme& wish : wishes_.experts) override_by(wish);
}

void Planner::override_by(const spec::ExpertScheme& wish) {
  const TargetScheme* target = intern(target_scheme(wish.scheme, wish.place));
  const auto in = [](const std::vector<int64_t>& list, int64_t value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  const auto refuse = [&](const std::string& what) {
    throw Error(Fault::usage, "the model has no " + what, wish.place,
                "`moert model inspect` shows its layers and experts");
  };
  for (const int64_t layer : wish.layers)
    if (std::none_of(source_.model.layers.begin(), source_.model.layers.end(),
                     [&](const spec::MoELayer& each) { return each.layer_id == layer; }))
      refuse("MoE layer " + std::to_string(layer));
  for (const spec::MoELayer& layer : source_.model.layers)
    for (const int64_t expert : wish.experts)
      if ((wish.layers.empty() || in(wish.layers, layer.layer_id)) &&
          (expert < 0 || expert >= layer.routing.num_experts))
        refuse("expert " + std::to_string(expert) + " in layer " + std::to_string(layer.layer_id));
  for (Candidate& each : candidates_)
    if (!each.is_outside && !each.excluded && each.source->target == Target::expert &&
        (wish.layers.empty() || in(wish.layers, layer_of(each).layer_id)) &&
        in(wish.experts, each.source->expert))
      each.target = target;
}

std::vector<const TargetScheme*> Planner::wanted_schemes() const {
  std::vector<const TargetScheme*> wanted;
  for (const Candidate& each : candidates_)
    if (each.target != nullptr && !each.target->is_plain() &&
        std::find(wanted.begin(), wanted.end(), each.target) == wanted.end())
      wanted.push_back(each.target);
  return wanted;
}

// Does the family store all of these weights as gpt-oss does its MXFP4?
bool Planner::has_blocks() const {
  return std::all_of(candidates_.begin(), candidates_.end(), [&](const Candidate& each) {
    return each.target == nullptr || each.target->is_plain() || is_of_blocks(*each.source->rule) ||
           with_blocks(source_.rules, *each.source->rule) != nullptr;
  });
}

// What is quantised outside the experts stays where one config can announce it beside them.
void Planner::choose_outside() {
  const std::vector<const TargetScheme*> wanted = wanted_schemes();
  uint64_t decoded = 0;
  for (Candidate& each : candidates_) {
    const bool of_layer = !each.is_outside && each.source->target == Target::layer;
    if (of_layer) each.excluded = false;
    if ((!each.is_outside && !of_layer) || each.excluded) continue;
    if (wanted.empty()) {
      each.target = main_;
      continue;
    }
    const bool stays = std::any_of(wanted.begin(), wanted.end(), [&](const TargetScheme* target) {
      return is_same(each, *target, placement(each, *target));
    });
    if (stays) continue;
    const std::string& dtype = source_.model.dtype;
    each.target = intern(plain_scheme(dtype == "f32" || dtype == "f16" ? dtype : "bf16"));
    ++decoded;
  }
  if (decoded != 0)
    plan_.notes.push_back(std::to_string(decoded) +
                          " weights outside the experts are quantised in a way that the new config "
                          "cannot announce beside them; they are decoded");
}

void Planner::split_layers() {
  for (size_t layer = 0; layer < source_.model.layers.size(); ++layer) split(layer);
  for (Candidate& each : candidates_) {
    const bool goes_along = each.target == nullptr && each.layer != kNoLayer &&
                            each.source->rule->stacked && split_.contains(each.layer);
    if (!goes_along) continue;
    if (!is_plain_float(format(each)))
      throw Error(Fault::usage,
                  "the excluded weight is " + format(each).scheme.name +
                      " and shares a tensor with other experts, which get tensors of their own",
                  place_of(each), "exclude all weights of this layer, or none");
    each.target = intern(plain_scheme(format(each).scheme.name));
  }
  for (const Candidate& each : candidates_)
    if (each.target == nullptr) kept_.push_back({each.source, &format(each), each.layer});
}

// Stacked experts get tensors of their own where the family knows such names, and a scheme wants it.
void Planner::split(size_t layer) {
  bool wanted = false, possible = !source_.model.layers[layer].bias;
  std::unordered_map<const weights::TensorInfo*, const TargetScheme*> schemes;
  for (const Candidate& each : candidates_) {
    if (each.layer != layer || !each.source->rule->stacked) continue;
    const weights::Source& source = *each.source;
    if (per_expert_rule(source_.rules, *source.rule, source.part) == nullptr) possible = false;
    const auto first = schemes.emplace(source.tensor, each.target).first;
    if (first->second != each.target) wanted = true;
    if (each.target != nullptr && !each.target->is_plain()) wanted = wanted || method_ != "mxfp4";
  }
  if (wanted && possible) split_.insert(layer);
}

const spec::TensorRule* Planner::rule_for(const Candidate& each, const TargetScheme& target) const {
  const spec::TensorRule& rule = *each.source->rule;
  if (!rule.stacked) return &rule;
  if (split_.contains(each.layer)) return per_expert_rule(source_.rules, rule, each.source->part);
  if (method_ == "mxfp4" && !target.is_plain())
    return is_of_blocks(rule) ? &rule : with_blocks(source_.rules, rule);
  if (!is_of_blocks(rule)) return &rule;
  const spec::TensorRule* plain = without_blocks(source_.rules, rule);
  if (plain == nullptr)
    throw Error(Fault::usage, "the family has no layout for these weights without blocks",
                place_of(each), "add one to the family file");
  return plain;
}

Placement Planner::placement(const Candidate& each, const TargetScheme& target) const {
  const weights::Source& source = *each.source;
  Placement to;
  to.rule = rule_for(each, target);
  to.name = weights::plain_name(source.tensor->name);
  if (to.rule != source.rule)
    to.name = weights::expand(*to.rule, layer_of(each).layer_id, source.expert);
  to.experts = to.rule->stacked ? source.experts : 1;
  if (each.is_outside) {
    std::tie(to.rows, to.cols) = WeightCodec::extent(source_.checkpoint, source, format(each));
    return to;
  }
  const weights::Extent extent =
      weights::weight_extent(source_.model, layer_of(each), *source.rule);
  to.rows = extent.out / static_cast<int64_t>(source.rule->parts.size()) *
            static_cast<int64_t>(to.rule->parts.size());
  to.cols = extent.in;
  return to;
}

// Does the file hold the very tensors that would be written? What floats their scales are doesn't matter.
bool Planner::is_same(const Candidate& each, const TargetScheme& target,
                      const Placement& to) const {
  const weights::Format& from = format(each);
  if (to.rule != each.source->rule || !is_of_scheme(from.scheme, target) ||
      to.cols % target.group != 0)
    return false;
  const std::vector<StoredTensor> all =
      stored_tensors(target, to, codec_.parts(target, to.rows, to.cols, to.name), method_);
  for (const weights::Companion& companion : each.source->companions) {
    const auto is_written = [&](const StoredTensor& tensor) {
      return tensor.info.name == companion.tensor->name;
    };
    if (companion.param != MOERT_PARAM_INPUT_SCALE &&
        std::none_of(all.begin(), all.end(), is_written))
      return false;  // a group index, or a second scale
  }
  for (const StoredTensor& tensor : all) {
    const weights::TensorInfo* found = source_.checkpoint.find(tensor.info.name);
    const bool is_scale = tensor.param == MOERT_PARAM_SCALE && tensor.info.dtype == MOERT_DTYPE_F32;
    const bool is_shape = tensor.param == weights::kShapeParam;  // i32 in some releases
    if (found == nullptr || found->shape != tensor.info.shape ||
        (found->dtype != tensor.info.dtype && !is_scale && !is_shape))
      return false;
  }
  return true;
}

void Planner::place(const Candidate& each) {
  const weights::Source& source = *each.source;
  const Placement to = placement(each, *each.target);
  const auto [at, is_new] = by_name_.emplace(to.name, plan_.weights.size());
  const auto halves = static_cast<int64_t>(to.rule->parts.size());
  if (is_new) {
    require_fit(*each.target, to, place_of(each));
    NewWeight weight;
    weight.target = each.target;
    weight.to = to;
    weight.layer = each.layer;
    weight.is_outside = each.is_outside;
    weight.unchanged = is_same(each, *each.target, to);
    weight.pieces.resize(static_cast<size_t>(to.experts * halves));
    plan_.weights.push_back(std::move(weight));
  }
  NewWeight& weight = plan_.weights[at->second];
  if (weight.target != each.target)
    throw Error(
        Fault::usage,
        "some experts of the tensor would be " + weight.target->word + ", others " +
            each.target->word,
        place_of(each),
        "give all experts of a layer one scheme: this family has no tensors of single experts");
  const auto half =
      std::find(to.rule->parts.begin(), to.rule->parts.end(), source.part) - to.rule->parts.begin();
  const int64_t expert = to.rule->stacked ? source.expert : 0;
  weight.pieces.at(static_cast<size_t>(expert * halves + half)) = &source;
}

void Planner::complete(NewWeight& weight) {
  for (const weights::Source* piece : weight.pieces)
    if (piece == nullptr)
      throw Error(Fault::usage, "a part of the weight is not converted, and they share a tensor",
                  weight.to.name, "convert all of its parts, or none");
  const Placement& to = weight.to;
  weight.tensors = stored_tensors(*weight.target, to,
                                  codec_.parts(*weight.target, to.rows, to.cols, to.name), method_);
  if (!weight.unchanged) return;
  for (StoredTensor& tensor : weight.tensors)
    tensor.info = *source_.checkpoint.find(tensor.info.name);
}

// In the order of the source's files, so that these are read forward.
void Planner::list_steps() {
  const std::vector<weights::TensorInfo>& from = source_.checkpoint.tensors();
  std::unordered_set<std::string> taken, bases;  // tensors, weights that are written by the plan
  std::vector<std::pair<size_t, WriteStep>> steps;
  for (size_t i = 0; i < plan_.weights.size(); ++i) {
    const NewWeight& weight = plan_.weights[i];
    for (const weights::Source* piece : weight.pieces) {
      taken.insert(piece->tensor->name);
      if (!plan_.is_copy) bases.insert(weights::plain_name(piece->tensor->name));
    }
    for (const StoredTensor& tensor : weight.tensors)
      if (weight.unchanged) taken.insert(tensor.info.name);
    const auto at = static_cast<size_t>(weight.pieces.front()->tensor - from.data());
    steps.emplace_back(at, WriteStep{nullptr, i, 0});
  }
  for (size_t i = 0; i < from.size(); ++i) {
    const bool beside = weights::for_each_base(
        from[i].name, [&](const weights::BaseName& base) { return bases.contains(base.name); });
    if (!beside && !taken.contains(from[i].name)) steps.emplace_back(i, WriteStep{&from[i], 0, 0});
  }
  std::sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second.weight) < std::pair(b.first, b.second.weight);
  });
  for (auto& [at, step] : steps) {
    step.first = plan_.tensors.size();
    if (step.copy != nullptr) {
      plan_.tensors.push_back(*step.copy);
    } else {
      plan_.weights[step.weight].first = step.first;
      for (const StoredTensor& tensor : plan_.weights[step.weight].tensors)
        plan_.tensors.push_back(tensor.info);
    }
    plan_.steps.push_back(step);
  }
}

}  // namespace

QuantizePlan plan_quantize(const QuantizeSource& source, const QuantizeWishes& wishes,
                           WeightCodec& codec) {
  return Planner(source, wishes, codec).run();
}

}  // namespace moert::runtime
