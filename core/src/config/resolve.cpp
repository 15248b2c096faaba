// From a config.json and a family to a model.
// SPDX-License-Identifier: Apache-2.0
#include "config/resolve.hpp"

#include <algorithm>

#include <moert/error.hpp>

#include "config/head.hpp"
#include "config/layer_pattern.hpp"
#include "config/quantization.hpp"
#include "util/nearest.hpp"
#include "util/text.hpp"

namespace moert::config {
namespace {

using Json = nlohmann::json;

// Numbers that may differ from layer to layer; empty: no value.
struct PerLayer {
  std::vector<int64_t> experts, top_k, width, shared_count, shared_width, shared_each;
  std::vector<double> limit, shared_limit;
};

int64_t one(Lookup& lookup, const char* name, const std::vector<int64_t>& values, size_t layer) {
  if (values.empty()) lookup.fail_missing(name);
  if (values[layer] == 0)
    lookup.fail(name, "has no value for layer " + std::to_string(layer) + ", which has experts",
                "give the layer a number, or make it dense");
  return values[layer];
}

double not_negative(Lookup& lookup, const char* name) {
  const double value = lookup.real(name);
  if (value < 0) lookup.fail(name, "is below 0", "write a number from 0");
  return value;
}

void read_groups(Lookup& lookup, spec::Routing& r) {
  if (!lookup.flag("grouped") && r.method != "group_topk") return;
  r.num_groups = lookup.count("num_groups", kMaxExperts);
  r.top_groups = r.method == "group_topk" ? r.num_groups : lookup.count("top_groups", kMaxExperts);
  if (r.num_groups <= 1 || r.method == "group_topk") return;
  r.group_score = lookup.word_or("group_score", "");
  if (r.group_score.empty())
    lookup.fail("num_groups",
                "is " + std::to_string(r.num_groups) + ", but the family has no groups",
                "remove it, or give the family a group_score");
}

spec::Routing routing_of(Lookup& lookup) {
  spec::Routing r;
  r.method = lookup.word("routing_method");
  r.scoring = lookup.word("scoring");
  r.zero_experts = lookup.size("zero_experts", kMaxExperts);
  if (r.zero_experts > 0) lookup.word("zero_expert_type");
  r.logit_scale = lookup.real("logit_scale");
  if (!(r.logit_scale > 0))
    lookup.fail("logit_scale", "is not above 0", "it must keep the order of the logits");
  r.logit_softcap = not_negative(lookup, "logit_softcap");
  if (r.method == "sparsemixer") r.jitter_eps = not_negative(lookup, "jitter_eps");
  r.renormalize = lookup.flag("renormalize");
  if (r.renormalize) {
    r.renormalize_eps = not_negative(lookup, "renormalize_eps");
    r.renormalize_floor = not_negative(lookup, "renormalize_floor");
  }
  r.routed_scale = lookup.real("routed_scale");
  if (!(r.routed_scale > 0))
    lookup.fail("routed_scale", "is not above 0", "a scale of 0 would switch the experts off");
  r.scale_on_output = lookup.word("scale_on") == "output";
  r.selection_bias = lookup.flag("selection_bias");
  if (r.selection_bias) r.bias_on_logits = lookup.word("selection_bias_on") == "logits";
  r.gate_bias = lookup.flag("gate_bias");
  r.expert_scale = lookup.flag("expert_scale");
  r.unit_input = lookup.word("router_input") == "unit";
  if (r.unit_input) r.unit_input_eps = not_negative(lookup, "router_input_eps");
  read_groups(lookup, r);
  return r;
}

void read_expert_space(Lookup& lookup, spec::MoELayer& layer) {
  layer.latent_size = lookup.size("latent_size", kMaxWidth);
  layer.expert_norm = lookup.word("expert_norm");
  if (layer.expert_norm != "none") layer.expert_norm_eps = not_negative(lookup, "expert_norm_eps");
}

spec::Activation activation_of(Lookup& lookup) {
  spec::Activation activation;
  activation.name = lookup.word("activation");
  activation.alpha = lookup.real("activation_alpha");
  activation.beta = lookup.real("activation_beta");
  return activation;
}

std::optional<spec::SharedExperts> shared_of(const PerLayer& numbers, size_t i, int64_t width) {
  const auto at = [i](const std::vector<int64_t>& list) { return list.empty() ? -1 : list[i]; };
  const int64_t count = at(numbers.shared_count), all = at(numbers.shared_width);
  const int64_t each = at(numbers.shared_each);
  if (count == 0 || all == 0 || (count < 0 && all < 0 && each <= 0)) return std::nullopt;
  spec::SharedExperts shared;
  shared.count = count < 0 ? 1 : count;
  shared.intermediate_size = all >= 0 ? all : shared.count * (each > 0 ? each : width);
  shared.activation.limit = !numbers.shared_limit.empty() ? numbers.shared_limit[i]
                            : !numbers.limit.empty()      ? numbers.limit[i]
                                                          : 0;
  return shared;
}

PerLayer per_layer(Lookup& lookup, int64_t layers) {
  PerLayer numbers;
  numbers.experts = lookup.per_layer("num_experts", layers, kMaxExperts);
  if (numbers.experts.empty()) lookup.fail_missing("num_experts");
  numbers.top_k = lookup.per_layer("top_k", layers, kMaxExperts);
  if (numbers.top_k.empty()) lookup.fail_missing("top_k");
  numbers.width = lookup.per_layer("intermediate_size", layers, kMaxWidth);
  if (numbers.width.empty()) lookup.fail_missing("intermediate_size");
  numbers.shared_count = lookup.per_layer("shared_count", layers, kMaxExperts);
  numbers.shared_width = lookup.per_layer("shared_width", layers, kMaxWidth);
  numbers.shared_each = lookup.per_layer("shared_each", layers, kMaxWidth);
  numbers.limit = lookup.real_per_layer("activation_limit", layers);
  numbers.shared_limit = lookup.real_per_layer("shared_limit", layers);
  return numbers;
}

bool is_one_of(const Json& value, const std::vector<std::string>& texts) {
  return std::find(texts.begin(), texts.end(), value.dump()) != texts.end();
}

// What the family says that it cannot do here, and the keys that ask for such things.
std::vector<std::string> unsupported(const Family& family, const std::vector<Scope>& scopes) {
  std::vector<std::string> reasons;
  if (!family.unsupported.empty())
    reasons.push_back("family " + family.name + ": " + family.unsupported);
  for (const auto& [key, reason, harmless] : family.refused) {
    for (const Scope& scope : scopes) {
      const Json* value = value_at(*scope.object, key);
      if (value == nullptr || says_nothing(*value) || is_one_of(*value, harmless)) continue;
      std::string text = scope.prefix + key + " is " + shortened(value->dump(), 60);
      text += ", which asks for " + reason;
      reasons.push_back(std::move(text));
      break;
    }
  }
  return reasons;
}

// For families whose readers disagree about a file that does not say which layers have experts.
void require_layers(const Lookup& lookup, const Family& family) {
  if (std::find(family.required.begin(), family.required.end(), "layers") == family.required.end())
    return;
  std::vector<std::string> tried;
  for (const std::string& name : layer_quantities(family.layer_rules)) {
    if (lookup.is_given(name)) return;
    const auto spellings = family.spellings.find(name);
    if (spellings != family.spellings.end())
      tried.insert(tried.end(), spellings->second.begin(), spellings->second.end());
  }
  throw Error(Fault::usage, "nothing says which layers have experts", lookup.place(),
              "spellings tried: " + joined(tried) + "; add one of them");
}

class Layers {
 public:
  Layers(spec::Model& model, Lookup& lookup) : model_(model), lookup_(lookup) {
    common_.gated = lookup.flag("gated");
    common_.bias = lookup.flag("bias");
    common_.weight_on_input = lookup.flag("weight_on_input");
    common_.output_bias = lookup.flag("output_bias");
    numbers_ = per_layer(lookup, model.num_layers);
    common_.routing = routing_of(lookup);
    common_.activation = activation_of(lookup);
    read_expert_space(lookup, common_);
    limited_ = lookup.word_or("limited_activation", common_.activation.name);
    sigmoid_gate_ = lookup.flag("shared_sigmoid_gate");
    average_ = lookup.word("shared_combine") == "average";
    least_k_ = lookup.count("renormalize_least_k", kMaxExperts);
    hash_layers_ = lookup.size("hash_layers", kMaxLayers);
  }

  void add(size_t i, LayerKind kind) {
    spec::MoELayer layer = common_;
    layer.layer_id = static_cast<int64_t>(i);
    layer.intermediate_size = one(lookup_, "intermediate_size", numbers_.width, i);
    layer.routing.num_experts = one(lookup_, "num_experts", numbers_.experts, i);
    layer.routing.top_k = one(lookup_, "top_k", numbers_.top_k, i);
    if (layer.routing.top_k < least_k_) {
      layer.routing.renormalize = false;
      layer.routing.renormalize_eps = layer.routing.renormalize_floor = 0;
    }
    layer.activation = activation(numbers_.limit.empty() ? 0 : numbers_.limit[i]);
    add_shared(layer, i);
    const bool hash =
        kind == LayerKind::hash || static_cast<int64_t>(model_.layers.size()) < hash_layers_;
    if (hash) route_by_table(layer.routing);
    check(layer);
    model_.layers.push_back(std::move(layer));
  }

 private:
  spec::Activation activation(double limit) const {
    spec::Activation result = common_.activation;
    result.limit = limit;
    if (limit > 0) result.name = limited_;
    return result;
  }
  void add_shared(spec::MoELayer& layer, size_t i) {
    layer.shared = shared_of(numbers_, i, layer.intermediate_size);
    if (!layer.shared) return;
    layer.shared->sigmoid_gate = sigmoid_gate_;
    layer.shared->average = average_;
    layer.shared->activation = activation(layer.shared->activation.limit);
    if (layer.shared->intermediate_size > kMaxWidth)
      lookup_.fail("shared_width", "is " + std::to_string(layer.shared->intermediate_size),
                   "expected at most " + std::to_string(kMaxWidth));
  }
  // The table chooses, so nothing that enters a choice is left.
  static void route_by_table(spec::Routing& routing) {
    routing.method = "hash";
    routing.selection_bias = routing.bias_on_logits = false;
    routing.num_groups = routing.top_groups = 1;
    routing.group_score.clear();
  }
  void check(const spec::MoELayer& layer) const {
    const std::string fault = layer_fault(layer);
    if (!fault.empty())
      throw Error(
          Fault::usage, fault, lookup_.place(),
          "layer " + std::to_string(layer.layer_id) + " cannot be routed so; correct the config");
  }

  spec::Model& model_;
  Lookup& lookup_;
  spec::MoELayer common_;
  PerLayer numbers_;
  std::string limited_;
  bool sigmoid_gate_ = false, average_ = false;
  int64_t least_k_ = 1, hash_layers_ = 0;
};

}  // namespace

void resolve_layers(spec::Model& model, const Family& family, const std::vector<Scope>& scopes,
                    const std::string& place) {
  model.unsupported = unsupported(family, scopes);
  Lookup lookup(scopes, family, place, model.origin);
  model.num_layers = layer_count(lookup);
  model.speaks_of_experts = true;
  model.extra_layers = lookup.size("extra_layers", kMaxExtraLayers);
  lookup.set_extra_layers(model.extra_layers);
  model.hidden_size = lookup.count("hidden_size", kMaxWidth);
  model.dtype = lookup.word_or("dtype", "");
  const std::vector<LayerKind> kinds = layer_pattern(lookup, model.num_layers, family.layer_rules);
  require_layers(lookup, family);
  std::string origin;
  model.quantization =
      read_quantization(scopes, lookup.word_or("expert_scheme", ""), place, &origin);
  if (model.quantization) model.origin["quantization"] = origin;
  Layers layers(model, lookup);
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] == LayerKind::dense)
      model.dense_layers.push_back(static_cast<int64_t>(i));
    else
      layers.add(i, kinds[i]);
  }
  const auto hashed = [](const spec::MoELayer& layer) { return layer.routing.method == "hash"; };
  if (std::any_of(model.layers.begin(), model.layers.end(), hashed))
    model.origin["routing_method"] =
        model.origin.at(lookup.is_given("hash_layers") ? "hash_layers" : "layer_words");
  if (!model.layers.empty() && model.layers.front().shared) {
    model.origin.try_emplace("shared_count", "one, of shared_width");
    model.origin.try_emplace("shared_width", model.origin.contains("shared_each")
                                                 ? "shared_count x shared_each"
                                                 : "shared_count x intermediate_size");
  }
}

void resolve_dense(spec::Model& model, const Family& family, const std::vector<Scope>& scopes,
                   const std::string& place) {
  Lookup lookup(scopes, family, place, model.origin);
  model.num_layers = lookup.maybe_count("num_layers", kMaxLayers).value_or(0);
  model.hidden_size = lookup.maybe_count("hidden_size", kMaxWidth).value_or(0);
  model.dtype = lookup.word_or("dtype", "");
  for (int64_t layer = 0; layer < model.num_layers; ++layer) model.dense_layers.push_back(layer);
}

bool says_dense(const Family& family, const std::vector<Scope>& scopes, const std::string& place) {
  std::map<std::string, std::string> origin;
  Lookup lookup(scopes, family, place, origin);
  return !lookup.flag("moe_enabled");
}

}  // namespace moert::config
