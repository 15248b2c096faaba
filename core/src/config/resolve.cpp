// From a config.json and a family to a model.
// SPDX-License-Identifier: Apache-2.0
#include "config/resolve.hpp"

#include <algorithm>

#include <moert/error.hpp>

#include "config/head.hpp"

namespace moert::config {
namespace {

using Json = nlohmann::json;

// Which layers have experts. Each rule takes some away.
class LayerPattern {
 public:
  LayerPattern(Lookup& lookup, int64_t layers)
      : lookup_(lookup), has_experts_(static_cast<size_t>(layers), true) {}

  void apply(const std::string& rule) {
    if (rule == "first_dense") first_dense();
    if (rule == "layer_freq") layer_freq();
    if (rule == "sparse_step") sparse_step();
    if (rule == "dense_list") dense_list();
  }
  const std::vector<bool>& has_experts() const { return has_experts_; }

 private:
  template <class IsDense>
  void remove(IsDense is_dense) {
    for (size_t i = 0; i < has_experts_.size(); ++i)
      if (is_dense(static_cast<int64_t>(i))) has_experts_[i] = false;
  }
  void first_dense() {
    const int64_t first = lookup_.maybe_count("first_dense", kMaxLayers).value_or(0);
    remove([&](int64_t layer) { return layer < first; });
  }
  void sparse_step() {
    const int64_t step = lookup_.maybe_count("sparse_step", kMaxLayers).value_or(1);
    remove([&](int64_t layer) { return (layer + 1) % step != 0; });
  }
  void layer_freq() {
    const Json value = lookup_.raw("layer_freq");
    if (value.is_null()) return;
    if (!value.is_array()) {
      const int64_t every = lookup_.count("layer_freq", kMaxLayers);
      return remove([&](int64_t layer) { return layer % every != 0; });
    }
    if (value.size() != has_experts_.size())
      lookup_.fail("layer_freq",
                   "is a list of " + std::to_string(value.size()) + " entries, but there are " +
                       std::to_string(has_experts_.size()) + " layers",
                   "a list has one entry for each layer");
    for (size_t i = 0; i < value.size(); ++i) {
      if (value[i] != 0 && value[i] != 1)
        lookup_.fail("layer_freq", "has the entry " + value[i].dump().substr(0, 60),
                     "entries are 0 (dense) or 1 (experts)");
      if (value[i] == 0) has_experts_[i] = false;
    }
  }
  void dense_list() {
    const Json value = lookup_.raw("dense_list");
    if (value.is_null()) return;
    if (!value.is_array())
      lookup_.fail("dense_list", "is " + value.dump().substr(0, 60), "write a list of layers");
    for (const Json& item : value) {
      const bool fits = item.is_number_integer() && item >= 0 && item < has_experts_.size();
      if (!fits)
        lookup_.fail("dense_list",
                     "has the entry " + item.dump().substr(0, 60) + ", which is no layer below " +
                         std::to_string(has_experts_.size()),
                     "layers are counted from 0");
      has_experts_[item.get<size_t>()] = false;
    }
  }

  Lookup& lookup_;
  std::vector<bool> has_experts_;
};

// Numbers that may differ from layer to layer.
struct PerLayer {
  std::vector<int64_t> experts, top_k, width, shared_count, shared_width;
};

int64_t one(Lookup& lookup, const char* name, const std::vector<int64_t>& values, size_t layer) {
  if (values.empty()) lookup.fail_missing(name);
  if (values[layer] == 0)
    lookup.fail(name, "has no value for layer " + std::to_string(layer) + ", which has experts",
                "give the layer a number, or make it dense");
  return values[layer];
}

spec::Routing routing_of(Lookup& lookup) {
  spec::Routing r;
  r.scoring = lookup.word("scoring");
  r.renormalize = lookup.flag("renormalize");
  r.renormalize_eps = lookup.real("renormalize_eps");
  r.routed_scale = lookup.real("routed_scale");
  if (!(r.routed_scale > 0))
    lookup.fail("routed_scale", "is not above 0", "a scale of 0 would switch the experts off");
  r.scale_on_output = lookup.word("scale_on") == "output";
  r.selection_bias = lookup.flag("selection_bias");
  r.gate_bias = lookup.flag("gate_bias");
  r.num_groups = lookup.count("num_groups", kMaxExperts);
  r.top_groups = lookup.count("top_groups", kMaxExperts);
  if (r.num_groups > 1) r.group_score = lookup.word("group_score");
  return r;
}

spec::Activation activation_of(Lookup& lookup) {
  spec::Activation activation;
  activation.name = lookup.word("activation");
  activation.alpha = lookup.real("activation_alpha");
  activation.beta = lookup.real("activation_beta");
  activation.limit = lookup.real("activation_limit");
  if (activation.limit < 0)
    lookup.fail("activation_limit", "is below 0", "write a clamp above 0, or 0 for none");
  return activation;
}

std::optional<spec::SharedExperts> shared_of(const PerLayer& numbers, size_t layer, int64_t width,
                                             bool gate) {
  const int64_t count = numbers.shared_count.empty() ? -1 : numbers.shared_count[layer];
  const int64_t own_width = numbers.shared_width.empty() ? -1 : numbers.shared_width[layer];
  if (count == 0 || own_width == 0 || (count < 0 && own_width < 0)) return std::nullopt;
  spec::SharedExperts shared;
  shared.count = count < 0 ? 1 : count;
  shared.intermediate_size = own_width < 0 ? count * width : own_width;
  shared.sigmoid_gate = gate;
  return shared;
}

PerLayer per_layer(Lookup& lookup, int64_t layers) {
  PerLayer numbers;
  numbers.experts = lookup.per_layer("num_experts", layers, kMaxExperts);
  numbers.top_k = lookup.per_layer("top_k", layers, kMaxExperts);
  numbers.width = lookup.per_layer("intermediate_size", layers, kMaxWidth);
  numbers.shared_count = lookup.per_layer("shared_count", layers, kMaxExperts);
  numbers.shared_width = lookup.per_layer("shared_width", layers, kMaxWidth);
  return numbers;
}

// A format that the config announces; the choice refuses it where no quant method reads it.
std::string scheme_of(Lookup& lookup, const std::vector<Scope>& scopes) {
  std::string scheme = lookup.word_or("scheme", "");
  for (const Scope& scope : scopes) {
    const Json* section = value_at(*scope.object, "quantization_config");
    if (scheme.empty() && section != nullptr && !says_nothing(*section)) scheme = "unknown";
  }
  return scheme;
}

[[noreturn]] void fail_refused(const std::string& key, const Json& value, const std::string& reason,
                               const std::string& place) {
  throw Error(Fault::usage,
              key + " is " + value.dump().substr(0, 60) + ", which asks for " + reason, place,
              "descriptions cannot say this yet, so the model would compute something else");
}

void check_refused(const Family& family, const std::vector<Scope>& scopes,
                   const std::string& place) {
  for (const auto& [key, reason] : family.refused) {
    for (const Scope& scope : scopes) {
      const Json* value = value_at(*scope.object, key);
      if (value == nullptr || says_nothing(*value)) continue;
      fail_refused(scope.prefix + key, *value, reason, place);
    }
  }
}

}  // namespace

void resolve_layers(spec::Model& model, const Family& family, const std::vector<Scope>& scopes,
                    const std::string& place) {
  check_refused(family, scopes, place);
  Lookup lookup(scopes, family, place, model.origin);
  model.num_layers = lookup.count("num_layers", kMaxLayers);
  model.hidden_size = lookup.count("hidden_size", kMaxWidth);
  model.dtype = lookup.word_or("dtype", "");

  LayerPattern pattern(lookup, model.num_layers);
  for (const std::string& rule : family.layer_rules) pattern.apply(rule);
  spec::MoELayer common;
  common.gated = lookup.flag("gated");
  common.bias = lookup.flag("bias");
  common.scheme = scheme_of(lookup, scopes);
  common.routing = routing_of(lookup);
  common.activation = activation_of(lookup);
  const PerLayer numbers = per_layer(lookup, model.num_layers);
  const bool gate = lookup.flag("shared_sigmoid_gate");

  for (size_t i = 0; i < pattern.has_experts().size(); ++i) {
    if (!pattern.has_experts()[i]) {
      model.dense_layers.push_back(static_cast<int64_t>(i));
      continue;
    }
    spec::MoELayer layer = common;
    layer.layer_id = static_cast<int64_t>(i);
    layer.intermediate_size = one(lookup, "intermediate_size", numbers.width, i);
    layer.routing.num_experts = one(lookup, "num_experts", numbers.experts, i);
    layer.routing.top_k = one(lookup, "top_k", numbers.top_k, i);
    layer.shared = shared_of(numbers, i, layer.intermediate_size, gate);
    if (layer.shared && layer.shared->intermediate_size > kMaxWidth)
      lookup.fail("shared_width", "is " + std::to_string(layer.shared->intermediate_size),
                  "expected at most " + std::to_string(kMaxWidth));
    const std::string fault = layer_fault(layer);
    if (!fault.empty())
      throw Error(Fault::usage, fault, place,
                  "layer " + std::to_string(i) + " cannot be routed so; correct the config");
    model.layers.push_back(std::move(layer));
  }
  if (!model.layers.empty() && model.layers.front().shared)
    model.origin.try_emplace("shared_width", "shared_count x intermediate_size");
}

void resolve_dense(spec::Model& model, const Family& family, const std::vector<Scope>& scopes,
                   const std::string& place) {
  Lookup lookup(scopes, family, place, model.origin);
  model.num_layers = lookup.maybe_count("num_layers", kMaxLayers).value_or(0);
  model.hidden_size = lookup.maybe_count("hidden_size", kMaxWidth).value_or(0);
  model.dtype = lookup.word_or("dtype", "");
  for (int64_t layer = 0; layer < model.num_layers; ++layer) model.dense_layers.push_back(layer);
}

}  // namespace moert::config
