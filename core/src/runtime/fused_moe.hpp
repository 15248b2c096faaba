// FusedMoE: from a layer's spec to a runner that owns its parts. A function, not a class.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <moert/abi/moe_runner.h>
#include <moert/abi/quant_method.h>

#include "registry/registry.hpp"
#include "runtime/device.hpp"
#include "runtime/layer_problem.hpp"
#include "runtime/part.hpp"
#include "runtime/part_options.hpp"
#include "runtime/session.hpp"
#include "spec/model.hpp"

namespace moert::runtime {

// What the user wants, for all layers.
struct ChoiceSettings {
  std::vector<std::string> prefer;
  // routed_experts, router, shared_experts, runner -> "auto" or a candidate's name
  std::map<std::string, std::string> layers;
  bool fallback_next = false;
  // For whoever serves a kind, by the same words as `layers`; none is empty.
  std::map<std::string, PartOptions> options{};
};

// One format of a layer's weights, and what it was found in.
struct FormatUse {
  std::string word;     // "quant" of the experts, "shared_quant", "layer_quant"
  uint32_t format = 0;  // index into the plan's
  spec::Scheme scheme;
  std::string first;     // name of the first tensor that has it, and of those beside it
  std::string pattern;   // the same for any layer
  uint64_t weights = 0;  // that have it
};

// The decision for one kind of one layer.
struct KindChoice {
  std::string word;    // "routed_experts", "router", "shared_experts", "runner", "quant",
                       // "shared_quant", "layer_quant"
  std::string kind;    // "moert.routed_experts/1"
  std::string asked;   // what was to be served, for messages
  std::string scheme;  // of the weights, where the kind is a quant method
  FormatUse use;       // the same
  registry::Decision decision;
  PartOptions options{};  // that it is created with
};

struct LayerChoice {
  int64_t layer_id = 0;
  std::unique_ptr<LayerProblem> problem;
  std::vector<KindChoice> kinds;
  bool monolithic = false;  // the runner needs no parts

  const KindChoice* find(const std::string& word) const;
};

// Asks every candidate. Reads no weights, creates nothing.
LayerChoice choose_layer(const Session& session, const spec::Model& model,
                         const spec::MoELayer& layer, const LayerSetting& setting,
                         const std::vector<FormatUse>& formats, const ChoiceSettings& settings);

// Throws Error(refused) with the decision table of the first kind for which nobody accepts.
void require_accepted(const LayerChoice& choice);

using Runner = Part<moert_moe_runner_t>;
using Quant = Part<moert_quant_method_t>;

// Creates the parts that were chosen and hands them to the runner, which owns them.
Runner FusedMoE(const Session& session, const LayerChoice& choice);

// Asks every quant method about the format.
KindChoice choose_quant(const Session& session, const FormatUse& use,
                        const ChoiceSettings& settings);
// Throws Error(refused) with the decision table if nobody accepts.
void require_accepted(const KindChoice& kind);

// The quant method that was chosen, bound to its scheme and options.
Quant make_quant(const Session& session, const KindChoice& kind);

}  // namespace moert::runtime
