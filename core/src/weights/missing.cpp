// The accounting: parts without a tensor, and the sum of it all.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <tuple>

#include <moert/abi/moe_runner.h>

#include "weights/accounting.hpp"
#include "weights/findings.hpp"
#include "weights/layout.hpp"

namespace moert::weights {

using spec::Target;

void Accounting::sort_sources(LayerPlan* layer_plan) const {
  const auto key = [](const Source& s) {
    const int group = s.target == Target::expert   ? 0
                      : s.target == Target::router ? 1
                      : s.target == Target::layer  ? 2
                                                   : 3;
    return std::make_tuple(group, s.expert, s.tensor->file, s.tensor->offset, s.part);
  };
  std::sort(layer_plan->sources.begin(), layer_plan->sources.end(),
            [&key](const Source& a, const Source& b) { return key(a) < key(b); });
}

void Accounting::find_missing(uint32_t layer_index) {
  usual_.clear();
  for (int64_t e = 0; e < layer(layer_index).routing.num_experts; ++e)
    for (uint32_t role = 0; role < kRoles; ++role)
      for (uint32_t part = 0; part < kExpertParts; ++part)
        need(layer_index, Target::expert, e, part, role);
  for (uint32_t part = 0; part < kRouterParts; ++part)
    need(layer_index, Target::router, 0, part, 0);
  for (uint32_t part = kFirstLayerPart; part < kFirstLayerPart + kLayerParts; ++part)
    need(layer_index, Target::layer, 0, part, 0);
  for (uint32_t role = 0; role < kRoles; ++role)
    for (uint32_t part = 0; part < kSharedParts; ++part)
      need(layer_index, Target::shared, 0, part, role);
}

void Accounting::need(uint32_t layer_index, Target target, int64_t expert, uint32_t part,
                      uint32_t role) {
  if (slot(layer_index, target, expert, part, kind_of(role, 0)) != kFree) return;
  const Need need = need_of(layer(layer_index), target, part, role);
  if (need.kind == Need::unwanted) return;
  const auto key = std::make_tuple(target, part, role);
  auto usual = usual_.find(key);
  if (usual == usual_.end())
    usual = usual_.emplace(key, usual_rule(layer_index, target, part, role)).first;
  const CompiledRule* rule = usual->second;
  if (need.kind == Need::optional && (rule == nullptr || rule->rule->optional)) return;
  const int64_t id = layer(layer_index).layer_id;
  const std::string what =
      "layer " + std::to_string(id) + ", " + part_text(target, expert, part, role);
  std::string name = rule != nullptr ? expand(*rule->rule, id, expert) : "(" + what + ")";
  if (!missing_.insert(name).second) return;  // another part of the same tensor
  plan_.findings.push_back({Finding::missing,
                            std::move(name),
                            rule != nullptr ? what : "no rule of the family names it",
                            {}});
}

// The rule by whose name a missing tensor is called: the one that most tensors of the layer follow,
// else that most of the checkpoint follow, else the one whose names begin like most of them.
const CompiledRule* Accounting::usual_rule(uint32_t layer_index, Target target, uint32_t part,
                                           uint32_t role) const {
  const CompiledRule* best = nullptr;
  std::tuple<uint64_t, uint64_t, uint64_t> most;
  for (uint32_t i = 0; i < rules_.size(); ++i) {
    const CompiledRule& rule = rules_.at(i);
    const bool feeds = rule.rule->target == target && rule.rule->role == role &&
                       (rule.layout < 0 || rule.layout == layouts_[layer_index]) &&
                       std::count(rule.rule->parts.begin(), rule.rule->parts.end(), part) != 0;
    if (!feeds) continue;
    const auto prefix = hits_of_prefix_.find(rule.prefix);
    const auto hits =
        std::make_tuple(hits_per_rule_[layer_index * rules_.size() + i], hits_of_rule_[i],
                        prefix != hits_of_prefix_.end() ? prefix->second : 0);
    if (best == nullptr || hits > most) {
      best = &rule;
      most = hits;
    }
  }
  return best;
}

void Accounting::finish() {
  std::sort(found_.begin(), found_.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const Finding::Kind kind : {Finding::misshapen, Finding::unexpected})
    for (auto& [i, finding] : found_)
      if (finding.kind == kind) plan_.findings.push_back(std::move(finding));
  finish_warnings();
  fill_nearest(model_, rules_, layouts_, &plan_.findings);
  for (const State state : state_) {
    plan_.used += state == State::used;
    plan_.ignored += state == State::ignored;
  }
  if (zero_expert_tensors_ != 0)
    plan_.ignored_by_reason.emplace_back("weights of experts that only return their input",
                                         zero_expert_tensors_);
  if (unread_input_scales_ != 0)
    plan_.ignored_by_reason.emplace_back("input scales of weights whose format reads none",
                                         unread_input_scales_);
  for (size_t i = 0; i < ignored_.size(); ++i) {
    if (ignored_[i] == 0) continue;
    const std::string& reason = tensors_.others[i].reason;
    auto& list = plan_.ignored_by_reason;
    const auto it = std::find_if(list.begin(), list.end(),
                                 [&](const auto& one) { return one.first == reason; });
    if (it != list.end())
      it->second += ignored_[i];
    else
      list.emplace_back(reason, ignored_[i]);
  }
}

}  // namespace moert::weights
