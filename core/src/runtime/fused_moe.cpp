// SPDX-License-Identifier: Apache-2.0
#include "runtime/fused_moe.hpp"

#include "runtime/ask.hpp"
#include "runtime/call.hpp"

namespace moert::runtime {

namespace {

using registry::Candidate;
using registry::table_of;

// The candidate that is named for a kind; empty: none is.
std::string pinned(const ChoiceSettings& settings, const std::string& word) {
  const auto pin = settings.layers.find(word);
  return pin == settings.layers.end() || pin->second == "auto" ? "" : pin->second;
}

// A monolithic runner has no parts, so it would pass over a part that is named, or has options.
moert_support_t without_parts(moert_support_t support, const ChoiceSettings& settings) {
  if (support.verdict == 0 || (support.flags & MOERT_SUPPORT_MONOLITHIC) == 0) return support;
  for (const std::string part : {"router", "routed_experts", "shared_experts"}) {
    if (!pinned(settings, part).empty())
      return refusal("routes and computes inside, but " + part + " is named");
    if (settings.options.contains(part))
      return refusal("routes and computes inside, but there are options for " + part);
  }
  return support;
}

template <class Table, class Spec>
KindChoice choose_kind(const Session& session, const char* word, const char* kind, const Spec* spec,
                       std::string asked, const ChoiceSettings& settings, std::string device) {
  registry::Policy policy;
  policy.device = std::move(device);
  policy.prefer = settings.prefer;
  policy.fallback_next = settings.fallback_next;
  policy.pinned = pinned(settings, word);
  const registry::Ask question = [&](const Candidate& c) {
    return without_parts(ask<Table>(session.host(), c, spec), settings);
  };
  KindChoice choice{word, kind, std::move(asked), {}, {}, {}};
  choice.decision = registry::choose(session.registry().candidates(kind), policy, question);
  if (const auto given = settings.options.find(word); given != settings.options.end())
    choice.options = given->second;
  return choice;
}

}  // namespace

KindChoice choose_quant(const Session& session, const FormatUse& use,
                        const ChoiceSettings& settings) {
  ChoiceSettings automatic;
  automatic.prefer = settings.prefer;
  automatic.fallback_next =
      true;  // the format is a fact about the bytes: whoever knows it may read it
  KindChoice choice = choose_kind<moert_quant_method_t>(
      session, use.word.c_str(), MOERT_KIND_QUANT_METHOD, use.scheme.name.c_str(),
      "scheme " + use.scheme.name + ", of " + use.first, automatic, {});
  choice.scheme = use.scheme.name;
  choice.use = use;
  return choice;
}

namespace {

void choose_quants(const Session& session, const char* word, const std::vector<FormatUse>& formats,
                   const ChoiceSettings& settings, std::vector<KindChoice>* kinds) {
  for (const FormatUse& use : formats)
    if (use.word == word) kinds->push_back(choose_quant(session, use, settings));
}

template <class Table, class Spec>
Part<Table> create(const Session& session, const LayerChoice& choice, const char* word,
                   const Spec* spec) {
  const KindChoice& kind = *choice.find(word);
  const Candidate& candidate = *kind.decision.chosen;
  const std::vector<moert_kv_t> options = kind.options.entries();
  void* self = nullptr;
  Call call;
  const moert_code_t code =
      table_of<Table>(candidate)->create(session.host(), spec, options.data(),
                                         static_cast<uint32_t>(options.size()), &self, call.out());
  kind.options.check_create(call, code, candidate.name, kind.asked);
  return {candidate, self};
}

}  // namespace

const KindChoice* LayerChoice::find(const std::string& word) const {
  for (const KindChoice& kind : kinds)
    if (kind.word == word) return &kind;
  return nullptr;
}

LayerChoice choose_layer(const Session& session, const spec::Model& model,
                         const spec::MoELayer& layer, const LayerSetting& setting,
                         const std::vector<FormatUse>& formats, const ChoiceSettings& settings) {
  LayerChoice choice;
  choice.layer_id = layer.layer_id;
  choice.problem = std::make_unique<LayerProblem>(model, layer, setting);
  const LayerProblem& problem = *choice.problem;
  const std::string asked = "layer " + std::to_string(layer.layer_id);
  const std::string& device = setting.device_word;
  ChoiceSettings around =
      settings;  // of a part that this layer has not, a runner passes nothing over
  if (problem.shared() == nullptr) {
    around.layers.erase("shared_experts");
    around.options.erase("shared_experts");
  }
  choice.kinds.push_back(choose_kind<moert_moe_runner_t>(session, "runner", MOERT_KIND_MOE_RUNNER,
                                                         &problem.layer(), asked, around, device));
  choice.monolithic = choice.kinds.back().decision.chosen != nullptr &&
                      (choice.kinds.back().decision.support.flags & MOERT_SUPPORT_MONOLITHIC) != 0;
  choose_quants(session, "quant", formats, settings, &choice.kinds);
  choose_quants(session, "layer_quant", formats, settings, &choice.kinds);
  if (!choice.monolithic) {
    choice.kinds.push_back(choose_kind<moert_router_t>(
        session, "router", MOERT_KIND_ROUTER, &problem.routing(), asked, settings, device));
    choice.kinds.push_back(
        choose_kind<moert_routed_experts_t>(session, "routed_experts", MOERT_KIND_ROUTED_EXPERTS,
                                            &problem.experts(), asked, settings, device));
  }
  if (problem.shared() != nullptr) {
    choose_quants(session, "shared_quant", formats, settings, &choice.kinds);
    if (!choice.monolithic)
      choice.kinds.push_back(
          choose_kind<moert_shared_experts_t>(session, "shared_experts", MOERT_KIND_SHARED_EXPERTS,
                                              problem.shared(), asked, settings, device));
  }
  return choice;
}

void require_accepted(const KindChoice& kind) {
  if (kind.decision.chosen != nullptr) return;
  throw Error(Fault::refused, "no " + kind.word + " accepts " + kind.asked, kind.kind,
              "the candidates and their reasons:\n" + registry::decision_table(kind.decision));
}

void require_accepted(const LayerChoice& choice) {
  for (const KindChoice& kind : choice.kinds) {
    if (kind.decision.chosen != nullptr) continue;
    throw Error(Fault::refused,
                "no " + kind.word + " accepts layer " + std::to_string(choice.layer_id) +
                    (kind.scheme.empty() ? "" : " (" + kind.asked + ")"),
                kind.kind,
                "the candidates and their reasons:\n" + registry::decision_table(kind.decision));
  }
}

Quant make_quant(const Session& session, const KindChoice& kind) {
  const Candidate& candidate = *kind.decision.chosen;
  std::vector<moert_kv_t> options;
  for (const auto& [key, value] : kind.use.scheme.options)
    options.push_back({key.c_str(), value.c_str()});
  void* self = nullptr;
  Call call;
  call.check(table_of<moert_quant_method_t>(candidate)->create(
                 session.host(), kind.scheme.c_str(), options.data(),
                 static_cast<uint32_t>(options.size()), &self, call.out()),
             candidate.name, "create", kind.asked);
  return {candidate, self};
}

Runner FusedMoE(const Session& session, const LayerChoice& choice) {
  const LayerProblem& problem = *choice.problem;
  Part<moert_router_t> router;
  Part<moert_routed_experts_t> experts;
  Part<moert_shared_experts_t> shared;
  if (!choice.monolithic) {
    router = create<moert_router_t>(session, choice, "router", &problem.routing());
    experts = create<moert_routed_experts_t>(session, choice, "routed_experts", &problem.experts());
    if (problem.shared() != nullptr)
      shared = create<moert_shared_experts_t>(session, choice, "shared_experts", problem.shared());
  }
  const moert_moe_parts_t parts = {sizeof parts,    0,
                                   router.table(),  router.self(),
                                   experts.table(), experts.self(),
                                   shared.table(),  shared.self()};
  const KindChoice& kind = *choice.find("runner");
  const Candidate& candidate = *kind.decision.chosen;
  const std::vector<moert_kv_t> options = kind.options.entries();
  void* self = nullptr;
  Call call;
  const moert_code_t code = table_of<moert_moe_runner_t>(candidate)->create(
      session.host(), &problem.layer(), &parts, options.data(),
      static_cast<uint32_t>(options.size()), &self, call.out());
  kind.options.check_create(call, code, candidate.name, kind.asked);
  router.release();
  experts.release();
  shared.release();
  return {candidate, self};
}

}  // namespace moert::runtime
