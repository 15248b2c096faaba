// SPDX-License-Identifier: Apache-2.0
#include "weights/outside.hpp"

#include <algorithm>
#include <map>
#include <unordered_set>

#include <moert/abi/moe_runner.h>
#include <moert/abi/quant_method.h>

#include "weights/formats.hpp"
#include "weights/targets.hpp"

namespace moert::weights {
namespace {

bool may_be_codes(const TensorInfo& info) {
  switch (info.dtype) {
    case MOERT_DTYPE_F8_E4M3FN:
    case MOERT_DTYPE_F8_E5M2:
    case MOERT_DTYPE_U8:
    case MOERT_DTYPE_I8:
    case MOERT_DTYPE_I32:
    case MOERT_DTYPE_F4_E2M1: return info.shape.size() == 2;
    default: return false;
  }
}

class Search {
 public:
  Search(const spec::Model& model, const Checkpoint& checkpoint, const Plan& plan)
      : checkpoint_(checkpoint) {
    if (model.quantization)
      for (const spec::FormatGroup& group : model.quantization->groups)
        groups_.emplace_back(Targets(group.targets, checkpoint.path().string()), &group);
    for (const LayerPlan& layer : plan.layers)
      for (const Source& source : layer.sources) {
        used_.insert(source.tensor);
        for (const Companion& companion : source.companions) used_.insert(companion.tensor);
      }
  }

  Outside run() {
    for (const TensorInfo& info : checkpoint_.tensors())
      if (may_be_codes(info) && !used_.contains(&info))
        weights_[plain_name(info.name)].weight = &info;
    for (const TensorInfo& info : checkpoint_.tensors()) attach(info);
    for (const TensorInfo& info : checkpoint_.tensors()) {
      const auto weight = weights_.find(plain_name(info.name));
      if (weight != weights_.end() && weight->second.weight == &info &&
          weight->second.companion(MOERT_PARAM_SCALE) != nullptr)
        add(weight->second);
    }
    return std::move(result_);
  }

 private:
  void attach(const TensorInfo& info) {
    if (used_.contains(&info)) return;
    for_each_base(info.name, [&](const BaseName& base) {
      const auto weight = weights_.find(base.name);
      if (base.param == MOERT_PARAM_WEIGHT || weight == weights_.end()) return false;
      weight->second.companions[base.param] = &info;
      return true;
    });
  }

  const spec::WeightFormat* announced(std::string_view name) const {
    for (const auto& [targets, group] : groups_)
      if (group->targets.empty() || targets.fit(name) || targets.fit(module_of(name)))
        return &group->format;
    return nullptr;
  }

  // Of the elements, which a tensor of words or of two to a byte has more of than places.
  static void find_extent(StoredWeight* weight, const spec::WeightFormat* format) {
    const std::string kind = format != nullptr ? format->kind : "";
    const TensorInfo& info = *weight->weight;
    weight->out = info.shape[0];
    weight->in = info.shape[1];
    if (info.dtype == MOERT_DTYPE_U8) weight->in *= 2;
    if (info.dtype != MOERT_DTYPE_I32) return;
    if (kind == "int4_gptq")
      std::swap(weight->out *= 8, weight->in);
    else if (kind == "int4_awq")
      std::swap(weight->out, weight->in *= 8);
    else
      weight->in *= 8;
  }

  void add(StoredWeight weight) {
    spec::TensorRule& rule = result_.rules.emplace_back();
    rule.target = spec::Target::shared;
    rule.pattern = weight.weight->name;
    rule.parts = {MOERT_PART_DOWN};
    weight.rule = &rule;
    const spec::WeightFormat* format = announced(weight.weight->name);
    find_extent(&weight, format);
    const Judgement judgement = judge(weight, format);
    if (!judgement.format) {
      result_.unread.push_back({Finding::misshapen, weight.weight->name, judgement.detail, {}});
      return;
    }
    const auto at = std::find(result_.formats.begin(), result_.formats.end(), *judgement.format);
    Source source;
    source.tensor = weight.weight;
    source.target = spec::Target::shared;
    source.part = MOERT_PART_DOWN;
    source.rule = weight.rule;
    source.format = static_cast<uint32_t>(at - result_.formats.begin());
    if (at == result_.formats.end()) result_.formats.push_back(*judgement.format);
    for (uint32_t param = 1; param < kParams; ++param)
      if (weight.companion(param) != nullptr && reads(*judgement.format, param))
        source.companions.push_back({param, weight.companion(param)});
    result_.sources.push_back(std::move(source));
  }

  const Checkpoint& checkpoint_;
  std::vector<std::pair<Targets, const spec::FormatGroup*>> groups_;
  std::unordered_set<const TensorInfo*> used_;
  std::map<std::string, StoredWeight> weights_;  // by the weight's plain name
  Outside result_;
};

}  // namespace

Outside find_outside(const spec::Model& model, const Checkpoint& checkpoint, const Plan& plan) {
  return Search(model, checkpoint, plan).run();
}

std::string plain_name(const std::string& name) {
  std::string plain = name;
  for_each_base(name, [&](const BaseName& base) {
    if (base.param != MOERT_PARAM_WEIGHT) return false;
    plain = base.name;
    return true;
  });
  return plain;
}

std::string_view module_of(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(0, dot);
}

}  // namespace moert::weights
