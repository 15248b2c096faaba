// The accounting: which format each weight has, and the tensors beside it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

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
  if (info == nullptr || (info->dtype != MOERT_DTYPE_I64 && info->dtype != MOERT_DTYPE_I32))
    return true;
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
  spec::WeightFormat pinned;
  pinned.kind = layer(layer_index).scheme;
  const spec::WeightFormat* format = announced(source.tensor->name);
  if (format == nullptr && !pinned.kind.empty() && source.target == Target::expert &&
      !model_.quantization)
    format = &pinned;
  const Judgement judgement = judge(weight, format);
  if (!judgement.format) {
    report(layer_index, source, judgement);
    return index;
  }
  if (!shape_tensor_agrees(weight)) return index;
  if (format != nullptr && format != &pinned) note_difference(source, judgement);
  const auto at = std::find(plan_.formats.begin(), plan_.formats.end(), *judgement.format);
  index = static_cast<uint32_t>(at - plan_.formats.begin());
  if (at == plan_.formats.end()) plan_.formats.push_back(*judgement.format);
  return index;
}

void Accounting::report(uint32_t layer_index, const Source& source, const Judgement& judgement) {
  const auto weight = static_cast<uint32_t>(source.tensor - &tensor(0));
  const uint32_t kind = kind_of(MOERT_ROLE_WEIGHT, judgement.param);
  if (judgement.is_missing) {
    // Called as those of the weight's neighbours, which mostly have one.
    std::string_view beside;
    const int64_t experts = layer(layer_index).routing.num_experts;
    for (int64_t e = 0; beside.empty() && source.target == Target::expert && e < experts; ++e)
      if (const uint32_t i = slot(layer_index, source.target, e, source.part, kind); i != kFree)
        beside = tensor(i).name;
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
  const bool unwanted = judgement.detail.find("but the weight beside it") != std::string::npos;
  if (state_[i] != State::found)
    found(unwanted ? Finding::unexpected : Finding::misshapen, i, judgement.detail);
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

// Files hold over what is announced; whoever wrote the config hears of it once.
void Accounting::note_difference(const Source& source, const Judgement& judgement) {
  const std::string& name = source.tensor->name;
  if (judgement.as_announced || (judgement.is_plain && excluded_ && any_module(*excluded_, name)))
    return;
  const spec::WeightFormat* format = announced(name);
  if (judgement.is_plain && format != nullptr && format->kind == "none") return;
  Difference& difference = judgement.is_plain ? plain_ : other_;
  if (difference.count++ != 0) return;
  difference.first = name;
  difference.found = judgement.format->scheme.name;
  difference.announced = format != nullptr ? format->kind : "";
}

void Accounting::finish_warnings() {
  const auto tensors = [](uint64_t count) {
    return std::to_string(count) + (count == 1 ? " weight is " : " weights are ");
  };
  if (plain_.count != 0)
    plan_.warnings.push_back(
        tensors(plain_.count) + plain_.found + " in the files, though the config announces '" +
        plain_.announced +
        "' and excludes nothing of the kind; the files hold. The first: " + plain_.first);
  if (other_.count != 0)
    plan_.warnings.push_back(tensors(other_.count) + other_.found +
                             " in the files, though the config announces '" + other_.announced +
                             "'; the files hold. The first: " + other_.first);
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
