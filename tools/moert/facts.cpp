// SPDX-License-Identifier: Apache-2.0
#include "facts.hpp"

#include <map>
#include <sstream>
#include <utility>

#include "text_table.hpp"
#include "util/nearest.hpp"

namespace moert::tool {

namespace {

using spec::MoELayer;

struct LayerFact {
  const char* name;
  std::string (*value)(const MoELayer&);
};

std::string text_of(bool value) { return value ? "true" : "false"; }

std::string text_of(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

using LayerFacts = std::vector<LayerFact>;

LayerFacts expert_facts() {
  return {
      {"num_experts", [](const MoELayer& l) { return std::to_string(l.routing.num_experts); }},
      {"zero_experts", [](const MoELayer& l) { return std::to_string(l.routing.zero_experts); }},
      {"top_k", [](const MoELayer& l) { return std::to_string(l.routing.top_k); }},
      {"intermediate_size", [](const MoELayer& l) { return std::to_string(l.intermediate_size); }},
      {"gated", [](const MoELayer& l) { return text_of(l.gated); }},
      {"bias", [](const MoELayer& l) { return text_of(l.bias); }},
      {"activation", [](const MoELayer& l) { return l.activation.name; }},
      {"activation_alpha", [](const MoELayer& l) { return text_of(l.activation.alpha); }},
      {"activation_beta", [](const MoELayer& l) { return text_of(l.activation.beta); }},
      {"activation_limit", [](const MoELayer& l) { return text_of(l.activation.limit); }},
      {"weight_on_input", [](const MoELayer& l) { return text_of(l.weight_on_input); }},
      {"latent_size", [](const MoELayer& l) { return std::to_string(l.latent_size); }},
      {"expert_norm", [](const MoELayer& l) { return l.expert_norm; }},
      {"expert_norm_eps", [](const MoELayer& l) { return text_of(l.expert_norm_eps); }},
      {"output_bias", [](const MoELayer& l) { return text_of(l.output_bias); }},
  };
}

LayerFacts routing_facts() {
  return {
      {"routing_method", [](const MoELayer& l) { return l.routing.method; }},
      {"scoring", [](const MoELayer& l) { return l.routing.scoring; }},
      {"logit_scale", [](const MoELayer& l) { return text_of(l.routing.logit_scale); }},
      {"logit_softcap", [](const MoELayer& l) { return text_of(l.routing.logit_softcap); }},
      {"jitter_eps", [](const MoELayer& l) { return text_of(l.routing.jitter_eps); }},
      {"renormalize", [](const MoELayer& l) { return text_of(l.routing.renormalize); }},
      {"renormalize_eps", [](const MoELayer& l) { return text_of(l.routing.renormalize_eps); }},
      {"renormalize_floor", [](const MoELayer& l) { return text_of(l.routing.renormalize_floor); }},
      {"routed_scale", [](const MoELayer& l) { return text_of(l.routing.routed_scale); }},
      {"scale_on",
       [](const MoELayer& l) {
         return std::string(l.routing.scale_on_output ? "output" : "weights");
       }},
      {"selection_bias", [](const MoELayer& l) { return text_of(l.routing.selection_bias); }},
      {"selection_bias_on",
       [](const MoELayer& l) {
         return std::string(l.routing.bias_on_logits ? "logits" : "scores");
       }},
      {"gate_bias", [](const MoELayer& l) { return text_of(l.routing.gate_bias); }},
      {"expert_scale", [](const MoELayer& l) { return text_of(l.routing.expert_scale); }},
      {"router_input",
       [](const MoELayer& l) { return std::string(l.routing.unit_input ? "unit" : "plain"); }},
      {"router_input_eps", [](const MoELayer& l) { return text_of(l.routing.unit_input_eps); }},
      {"num_groups", [](const MoELayer& l) { return std::to_string(l.routing.num_groups); }},
      {"top_groups", [](const MoELayer& l) { return std::to_string(l.routing.top_groups); }},
      {"group_score", [](const MoELayer& l) { return l.routing.group_score; }},
  };
}

LayerFacts shared_facts() {
  return {
      {"shared_count",
       [](const MoELayer& l) { return std::to_string(l.shared ? l.shared->count : 0); }},
      {"shared_width",
       [](const MoELayer& l) {
         return std::to_string(l.shared ? l.shared->intermediate_size : 0);
       }},
      {"shared_sigmoid_gate",
       [](const MoELayer& l) { return text_of(l.shared && l.shared->sigmoid_gate); }},
      {"shared_limit",
       [](const MoELayer& l) { return text_of(l.shared ? l.shared->activation.limit : 0); }},
      {"shared_combine",
       [](const MoELayer& l) {
         return std::string(l.shared && l.shared->average ? "average" : "sum");
       }},
      {"scheme", [](const MoELayer& l) { return l.scheme; }},
  };
}

const LayerFacts& layer_facts() {
  static const LayerFacts facts = [] {
    LayerFacts all;
    for (const LayerFacts& part : {expert_facts(), routing_facts(), shared_facts()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return facts;
}

std::string value_over_layers(const spec::Model& model, const LayerFact& fact) {
  std::vector<std::pair<std::string, std::vector<int64_t>>> groups;
  for (const MoELayer& layer : model.layers) {
    const std::string value = fact.value(layer);
    size_t at = 0;
    while (at < groups.size() && groups[at].first != value) ++at;
    if (at == groups.size()) groups.push_back({value, {}});
    groups[at].second.push_back(layer.layer_id);
  }
  if (groups.size() == 1) return groups.front().first;
  std::string text;
  for (const auto& [value, layers] : groups)
    text += (text.empty() ? "" : ", ") + value + " (layers " + ranges_text(layers) + ")";
  return text;
}

// What a quantity is where there is nothing to say of it.
bool is_plain(const std::string& value) {
  for (const char* plain : {"", "0", "1", "false", "none", "plain", "sum", "weights", "scores"})
    if (value == plain) return true;
  return false;
}

std::string found(const std::map<std::string, std::string>& map, const std::string& key) {
  const auto at = map.find(key);
  return at == map.end() ? "" : at->second;
}

void add_captures(const spec::Run& run, std::map<std::string, std::string>& values) {
  values["capture"] = count_text(run.capture.size(), "capturer");
  for (size_t i = 0; i < run.capture.size(); ++i) {
    const std::string key = "capture[" + std::to_string(i) + "]";
    values[key + ".to"] = run.capture[i].to;
    values[key + ".path"] = run.capture[i].path.string();
    values[key + ".what"] = joined(run.capture[i].what);
    for (const auto& [option, text] : run.capture[i].options)
      values[std::string(key).append(".options.").append(option)] = text;
  }
}

// Keys of a Run as in the YAML, below spec.
std::map<std::string, std::string> run_values(const spec::Run& run) {
  std::map<std::string, std::string> values = {
      {"metadata.name", run.name},
      {"model.checkpoint", run.checkpoint.string()},
      {"model.description", run.description.string()},
      {"device", run.device},
      {"prefer", joined(run.prefer)},
      {"fallback", run.fallback},
      {"simulate.routing", run.simulate},
      {"simulate.seed", std::to_string(run.seed)},
      {"inputs.hidden_states", run.hidden_states.string()},
      {"outputs.file", run.output.string()},
      {"threads", std::to_string(run.threads)},
      {"repeat", std::to_string(run.repeat)},
      {"replay", run.replay.string()},
      {"verify", text_of(run.verify)},
  };
  for (const auto& [word, candidate] : run.layers) values["layers." + word] = candidate;
  for (const auto& [word, options] : run.options)
    for (const auto& [key, text] : options)
      values[std::string("options.").append(word).append(".").append(key)] = text;
  add_captures(run, values);
  if (run.expect) {
    values["expect.file"] = run.expect->file.string();
    if (run.expect->output_tolerance)
      values["expect.tolerance.output"] = text_of(*run.expect->output_tolerance);
    if (run.expect->weight_tolerance)
      values["expect.tolerance.weights"] = text_of(*run.expect->weight_tolerance);
  }
  return values;
}

}  // namespace

std::vector<Fact> model_facts(const spec::Model& model) {
  const auto origin = [&](const std::string& key) { return found(model.origin, key); };
  std::vector<int64_t> ids;
  for (const MoELayer& layer : model.layers) ids.push_back(layer.layer_id);
  std::vector<Fact> facts = {
      {"name", model.name, ""},
      {"family", model.family, origin("family")},
      {"checkpoint", model.checkpoint.string(), origin("checkpoint")},
      {"num_layers", std::to_string(model.num_layers), origin("num_layers")},
      {"moe_layers", ranges_text(ids), origin("layers")},
      {"dense_layers", ranges_text(model.dense_layers), origin("dense_layers")},
      {"hidden_size", std::to_string(model.hidden_size), origin("hidden_size")},
      {"dtype", model.dtype, origin("dtype")},
  };
  if (model.layers.empty()) return facts;
  if (model.quantization)
    facts.push_back({"quantization", model.quantization->method, origin("quantization")});
  for (const std::string& reason : model.unsupported) facts.push_back({"not run", reason, ""});
  for (const LayerFact& fact : layer_facts()) {
    // What has no origin of its own comes from the YAML's list of layers, or is not said at all.
    const std::string own = origin(fact.name);
    const std::string from = own.empty() ? origin("layers") : own;
    // Nor is what nobody mentions and no layer has.
    const std::string value = value_over_layers(model, fact);
    if (!from.empty() && (from != "default" || !is_plain(value)))
      facts.push_back({fact.name, value, from});
  }
  return facts;
}

std::vector<Fact> run_facts(const spec::Run& run) {
  const std::map<std::string, std::string> values = run_values(run);
  std::vector<Fact> facts;
  for (const auto& [key, origin] : run.origin)
    if (key != "apiVersion" && key != "kind") facts.push_back({key, found(values, key), origin});
  return facts;
}

void print_facts(Console& console, const std::string& title, const std::vector<Fact>& facts) {
  TextTable table({title, "value", "from"});
  for (const Fact& fact : facts)
    table.add({fact.name, path_text(fact.value), path_text(fact.origin)});
  table.print(console);
}

Json facts_json(const std::vector<Fact>& facts) {
  Json json = Json::array();
  for (const Fact& fact : facts)
    json.push_back({{"name", fact.name}, {"value", fact.value}, {"from", fact.origin}});
  return json;
}

}  // namespace moert::tool
