// The accounting: which format each weight has, and the tensors beside it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <set>

#include <moert/abi/moe_runner.h>
#include <moert/abi/quant_method.h>

#include "weights/accounting.hpp"
#include "weights/layout.hpp"
#include "weights/outside.hpp"

namespace moert::weights {

using spec::Target;

namespace {

// Of a tensor that holds all experts the name itself is the module's, too.
bool any_module(const Targets& targets, std::string_view name) {
  return targets.fit(name) || targets.fit(module_of(name));
}

}  // namespace

void Accounting::read_announced() {
  if (!model_.quantization) return;
  const std::string place = checkpoint_.path().string() + ": quantization of the model";
  for (const spec::FormatGroup& group : model_.quantization->groups)
    groups_.emplace_back(Targets(group.targets, place), &group.format);
  excluded_.emplace(model_.quantization->excluded, place);
}

const spec::WeightFormat* Accounting::announced(std::string_view name) const {
  for (size_t i = 0; i < groups_.size(); ++i)
    if (model_.quantization->groups[i].targets.empty() || any_module(groups_[i].first, name))
      return groups_[i].second;
  return nullptr;
}

StoredWeight Accounting::stored(uint32_t layer_index, const Source& source) {
  StoredWeight result;
  result.weight = source.tensor;
  result.rule = source.rule;
  const Extent extent = weight_extent(model_, layer(layer_index), *source.rule);
  result.out = extent.out;
  result.in = extent.in;
  result.experts = source.experts;
  for (uint32_t param = 1; param < kParams; ++param) {
    const uint32_t i = slot(layer_index, source.target, source.expert, source.part,
                            kind_of(MOERT_ROLE_WEIGHT, param));
    if (i != kFree && state_[i] == State::used) result.companions[param] = &tensor(i);
  }
  const auto spelling = spellings_.find(static_cast<uint32_t>(source.tensor - &tensor(0)));
  if (spelling != spellings_.end()) result.spelling = spelling->second;
  return result;
}

// The shape that packed words stand for is stored beside them; it must be the model's.
bool Accounting::shape_tensor_agrees(const StoredWeight& stored) {
  const TensorInfo* info = stored.companion(kShapeParam);
  if (info == nullptr) return true;
  const bool whole = info->dtype == MOERT_DTYPE_I64 || info->dtype == MOERT_DTYPE_I32;
  if (!whole || info->shape != std::vector<int64_t>{2}) {
    found(Finding::misshapen, static_cast<uint32_t>(info - &tensor(0)),
          "is " + std::string(dtype_name(info->dtype)) + " " +
              shape_text(info->shape.data(), static_cast<uint32_t>(info->shape.size())) +
              ", expected two whole numbers");
    return false;
  }
  int64_t sizes[2] = {0, 0};
  const moert::TensorView view = checkpoint_.view(*info);
  for (int d = 0; d < 2; ++d) {
    int32_t narrow = 0;
    const auto* data = static_cast<const std::byte*>(view.get()->data);
    if (info->dtype == MOERT_DTYPE_I64) {
      std::memcpy(&sizes[d], data + d * sizeof(int64_t), sizeof(int64_t));
    } else {
      std::memcpy(&narrow, data + d * sizeof narrow, sizeof narrow);
      sizes[d] = narrow;
    }
  }
  if (sizes[0] == stored.out && sizes[1] == stored.in) return true;
  found(Finding::misshapen, static_cast<uint32_t>(info - &tensor(0)),
        "says [" + std::to_string(sizes[0]) + ", " + std::to_string(sizes[1]) + "], expected [" +
            std::to_string(stored.out) + ", " + std::to_string(stored.in) + "]");
  return false;
}

// Index into Plan::formats; kNoFormat if there is none, which has been reported.
uint32_t Accounting::format_index(uint32_t layer_index, const Source& source) {
  const auto i = static_cast<uint32_t>(source.tensor - &tensor(0));
  const auto known = formats_.find(i);
  if (known != formats_.end()) return known->second;
  uint32_t& index = formats_.emplace(i, kNoFormat).first->second;
  const StoredWeight weight = stored(layer_index, source);
  const std::string& scheme = layer(layer_index).scheme;
  const spec::WeightFormat pinned = announced_by(scheme);
  const spec::WeightFormat* format = announced(source.tensor->name);
  if (format == nullptr && !scheme.empty() && source.target == Target::expert &&
      !model_.quantization)
    format = &pinned;
  const Judgement judgement = judge(weight, format);
  if (!judgement.format) {
    report(layer_index, source, judgement);
    return index;
  }
  if (!shape_tensor_agrees(weight)) return index;
  if (format != &pinned) note_difference(layer_index, source, judgement);
  const auto at = std::find(plan_.formats.begin(), plan_.formats.end(), *judgement.format);
  index = static_cast<uint32_t>(at - plan_.formats.begin());
  if (at == plan_.formats.end()) plan_.formats.push_back(*judgement.format);
  return index;
}

// Another weight's companion of that kind: what is missing is mostly called as those that are there. Of the
// same part, else of any in the layer; empty: none has one.
std::string_view Accounting::like_companion(uint32_t layer_index, const Source& source,
                                            uint32_t kind) {
  const auto name_at = [&](Target target, int64_t expert, uint32_t part) -> std::string_view {
    const uint32_t i = slot(layer_index, target, expert, part, kind);
    return i == kFree ? std::string_view() : std::string_view(tensor(i).name);
  };
  std::string_view any;
  for (int64_t e = 0; e < layer(layer_index).routing.num_experts; ++e)
    for (uint32_t part = 0; part < kExpertParts; ++part) {
      const std::string_view name = name_at(Target::expert, e, part);
      if (source.target == Target::expert && part == source.part && !name.empty()) return name;
      if (any.empty()) any = name;
    }
  for (uint32_t part = 0; part < kExpertParts; ++part) {
    const std::string_view name = name_at(Target::shared, 0, part);
    if (!name.empty() && (source.target == Target::shared || any.empty())) return name;
  }
  return any;
}

void Accounting::report(uint32_t layer_index, const Source& source, const Judgement& judgement) {
  const auto weight = static_cast<uint32_t>(source.tensor - &tensor(0));
  const uint32_t kind = kind_of(MOERT_ROLE_WEIGHT, judgement.param);
  if (judgement.fault == Finding::missing) {
    const std::string_view beside = like_companion(layer_index, source, kind);
    std::string name = companion_name(source.tensor->name, judgement.param, beside);
    plan_.findings.push_back(
        {Finding::missing,
         std::move(name),
         "layer " + std::to_string(layer(layer_index).layer_id) + ", " +
             part_text(source.target, source.expert, source.part, source.role) + ", " +
             judgement.detail,
         {}});
    return;
  }
  const uint32_t i = judgement.param == MOERT_PARAM_WEIGHT
                         ? weight
                         : slot(layer_index, source.target, source.expert, source.part, kind);
  if (state_[i] != State::found) found(judgement.fault, i, judgement.detail);
}

void Accounting::find_formats(uint32_t layer_index) {
  LayerPlan& layer_plan = plan_.layers[layer_index];
  formats_.clear();
  std::erase_if(layer_plan.sources, [&](Source& source) {
    if (!is_matrix(source.target, source.part, source.role)) return false;
    source.format = format_index(layer_index, source);
    if (source.format == kNoFormat) return true;
    take_companions(layer_index, &source);
    return false;
  });
  for (const uint32_t param : {MOERT_PARAM_SCALE2, MOERT_PARAM_GROUP_INDEX})
    find_lost_companions(layer_index, param);
  layer_plan.scheme = scheme_text(layer_plan, Target::expert);
  layer_plan.shared_scheme = scheme_text(layer_plan, Target::shared);
  layer_plan.layer_scheme = scheme_text(layer_plan, Target::layer);
}

void Accounting::take_companions(uint32_t layer_index, Source* source) {
  const Format& format = plan_.formats[source->format];
  const StoredWeight weight = stored(layer_index, *source);
  for (uint32_t param = 1; param < kParams; ++param) {
    const TensorInfo* info = weight.companion(param);
    if (info == nullptr) continue;
    if (reads(format, param)) {
      source->companions.push_back({param, info});
    } else if (param == MOERT_PARAM_INPUT_SCALE &&
               counted_input_scales_.insert(static_cast<uint32_t>(info - &tensor(0))).second) {
      state_[static_cast<size_t>(info - &tensor(0))] = State::ignored;
      ++unread_input_scales_;
    }
  }
}

// What some experts' weights have beside them is missing where another's have none, though its format does
// not need it: without a second scale numbers would be off by a constant, without a group index anything.
void Accounting::find_lost_companions(uint32_t layer_index, uint32_t param) {
  const auto has_one = [param](const Source& source) {
    return std::any_of(source.companions.begin(), source.companions.end(),
                       [param](const Companion& companion) { return companion.param == param; });
  };
  const auto scheme_of = [this](const Source& source) {
    return std::make_tuple(source.target, source.part, plan_.formats[source.format].scheme.name);
  };
  const std::vector<Source>& sources = plan_.layers[layer_index].sources;
  std::set<std::tuple<Target, uint32_t, std::string>> schemes;
  for (const Source& source : sources)
    if (source.format != kNoFormat && has_one(source)) schemes.insert(scheme_of(source));
  if (schemes.empty()) return;
  const TensorInfo* last = nullptr;  // a tensor of several experts or parts is missing one
  for (const Source& source : sources) {
    if (source.format == kNoFormat || source.tensor == last || has_one(source) ||
        !schemes.contains(scheme_of(source)))
      continue;
    last = source.tensor;
    Judgement judgement;
    judgement.param = param;
    judgement.fault = Finding::missing;
    judgement.detail = std::string(param_text(param)) + ", which other experts' weights of '" +
                       std::get<2>(scheme_of(source)) + "' have";
    report(layer_index, source, judgement);
  }
}

// Lists may name the tensors of single experts where one tensor holds them all.
bool Accounting::is_excluded(uint32_t layer_index, const Source& source) const {
  if (!excluded_) return false;
  if (any_module(*excluded_, source.tensor->name)) return true;
  for (uint32_t i = 0; source.rule->stacked && i < rules_.size(); ++i) {
    const spec::TensorRule& rule = *rules_.at(i).rule;
    if (rule.target != source.target || rule.stacked || rule.role != source.role ||
        rule.parts.front() != source.part)
      continue;
    const std::string own = expand(rule, layer(layer_index).layer_id, source.expert);
    if (excluded_->fit(module_of(own))) return true;
  }
  return false;
}

// Files hold over what is announced; whoever wrote the config hears of it once.
void Accounting::note_difference(uint32_t layer_index, const Source& source,
                                 const Judgement& judgement) {
  const std::string& name = source.tensor->name;
  const spec::WeightFormat* format = announced(name);
  const bool as_said = format != nullptr ? judgement.as_announced : judgement.is_plain;
  if (as_said || (judgement.is_plain && is_excluded(layer_index, source))) return;
  if (judgement.is_plain && format != nullptr && format->kind == "none") return;
  Difference& difference = judgement.is_plain ? plain_ : other_;
  if (difference.count++ != 0) return;
  difference.first = name;
  difference.found = judgement.format->scheme.name;
  difference.announced = format != nullptr ? "'" + format->kind + "'" : "nothing for them";
}

void Accounting::finish_warnings() {
  const auto say = [this](const Difference& difference, const char* more) {
    if (difference.count == 0) return;
    plan_.warnings.push_back(std::to_string(difference.count) +
                             (difference.count == 1 ? " weight is " : " weights are ") +
                             difference.found + " in the files, though the config announces " +
                             difference.announced + more + ". The first: " + difference.first);
  };
  say(plain_, " and excludes nothing of the kind; the files hold");
  say(other_, "; the files hold, and rows are not rounded");
}

std::string Accounting::scheme_text(const LayerPlan& layer_plan, Target target) const {
  uint32_t format = kNoFormat;
  for (const Source& source : layer_plan.sources) {
    if (source.target != target || source.format == kNoFormat) continue;
    if (format != kNoFormat &&
        plan_.formats[format].scheme.name != plan_.formats[source.format].scheme.name)
      return "mixed";
    format = source.format;
  }
  return format == kNoFormat ? "" : plan_.formats[format].scheme.name;
}

}  // namespace moert::weights
