// Reads a file of kind Model.
// SPDX-License-Identifier: Apache-2.0
#include "config/config.hpp"
#include "config/head.hpp"
#include "config/table.hpp"

namespace moert::config {
namespace {

void set(std::string& to, const YamlNode* from) {
  if (from != nullptr) to = from->text;
}
void set(int64_t& to, const YamlNode* from) {
  if (from != nullptr) to = from->integer;
}
void set(double& to, const YamlNode* from) {
  if (from != nullptr) to = from->number;
}
void set(bool& to, const YamlNode* from) {
  if (from != nullptr) to = from->boolean;
}

spec::Routing read_routing(const YamlNode& node) {
  spec::Routing r;
  set(r.method, node.find("method"));
  set(r.scoring, node.find("scoring"));
  set(r.num_experts, node.find("num_experts"));
  set(r.zero_experts, node.find("zero_experts"));
  set(r.logit_scale, node.find("logit_scale"));
  set(r.logit_softcap, node.find("logit_softcap"));
  set(r.jitter_eps, node.find("jitter_eps"));
  set(r.top_k, node.find("top_k"));
  set(r.renormalize, node.find("renormalize"));
  set(r.renormalize_eps, node.find("renormalize_eps"));
  set(r.renormalize_floor, node.find("renormalize_floor"));
  set(r.routed_scale, node.find("routed_scale"));
  r.scale_on_output = node.find("scale_on") != nullptr && node.find("scale_on")->text == "output";
  set(r.selection_bias, node.find("selection_bias"));
  const YamlNode* on = node.find("selection_bias_on");
  r.bias_on_logits = on != nullptr && on->text == "logits";
  set(r.gate_bias, node.find("gate_bias"));
  set(r.expert_scale, node.find("expert_scale"));
  r.unit_input = node.find("input") != nullptr && node.find("input")->text == "unit";
  set(r.unit_input_eps, node.find("input_eps"));
  set(r.num_groups, node.find("num_groups"));
  set(r.top_groups, node.find("top_groups"));
  set(r.group_score, node.find("group_score"));
  return r;
}

spec::Activation read_activation(const YamlNode& node) {
  spec::Activation activation;
  set(activation.name, node.find("name"));
  set(activation.alpha, node.find("alpha"));
  set(activation.beta, node.find("beta"));
  set(activation.limit, node.find("limit"));
  return activation;
}

std::vector<std::string> texts(const YamlNode* list) {
  std::vector<std::string> result;
  if (list != nullptr)
    for (const YamlNode& item : list->items) result.push_back(item.text);
  return result;
}

spec::Quantization read_quantization(const YamlNode& node) {
  spec::Quantization result;
  set(result.method, node.find("method"));
  result.excluded = texts(node.find("excluded"));
  if (const YamlNode* groups = node.find("groups")) {
    for (const YamlNode& item : groups->items) {
      spec::FormatGroup group{texts(item.find("targets")), {}};
      set(group.format.kind, item.find("kind"));
      set(group.format.blocks, item.find("blocks"));
      set(group.format.activations, item.find("activations"));
      set(group.format.global, item.find("global"));
      set(group.format.zeros, item.find("zeros"));
      set(group.format.nibbles, item.find("nibbles"));
      set(group.format.column_groups, item.find("column_groups"));
      result.groups.push_back(std::move(group));
    }
  }
  return result;
}

spec::MoELayer read_layer(const YamlNode& node) {
  spec::MoELayer layer;
  set(layer.intermediate_size, node.find("intermediate_size"));
  set(layer.gated, node.find("gated"));
  set(layer.bias, node.find("bias"));
  set(layer.weight_on_input, node.find("weight_on_input"));
  set(layer.output_bias, node.find("output_bias"));
  set(layer.latent_size, node.find("latent_size"));
  set(layer.expert_norm, node.find("expert_norm"));
  set(layer.expert_norm_eps, node.find("expert_norm_eps"));
  set(layer.scheme, node.find("scheme"));
  if (const YamlNode* activation = node.find("activation"))
    layer.activation = read_activation(*activation);
  layer.routing = read_routing(*node.find("routing"));
  if (const YamlNode* shared = node.find("shared_experts")) {
    layer.shared.emplace();
    set(layer.shared->count, shared->find("count"));
    set(layer.shared->intermediate_size, shared->find("intermediate_size"));
    set(layer.shared->sigmoid_gate, shared->find("sigmoid_gate"));
    const YamlNode* combine = shared->find("combine");
    layer.shared->average = combine != nullptr && combine->text == "average";
    const YamlNode* activation = shared->find("activation");
    layer.shared->activation =
        activation != nullptr ? read_activation(*activation) : layer.activation;
  }
  const std::string fault = layer_fault(layer);
  if (!fault.empty())
    fail_at(node.find("routing")->place(), fault, "correct the numbers of this entry");
  return layer;
}

// Which entry describes each layer, so that none is described twice or forgotten.
class Cover {
 public:
  explicit Cover(int64_t num_layers) : places_(static_cast<size_t>(num_layers)) {}

  void add(const YamlNode& ranges, const std::vector<int64_t>& layers) {
    for (const int64_t layer : layers) {
      std::string& place = places_[static_cast<size_t>(layer)];
      if (!place.empty())
        fail_at(ranges.place(), "layer " + std::to_string(layer) + " is described twice",
                "it also stands at " + place);
      place = ranges.place();
    }
  }
  void require_all(const YamlNode& spec) const {
    for (size_t layer = 0; layer < places_.size(); ++layer)
      if (places_[layer].empty())
        fail_at(spec.place(), "layer " + std::to_string(layer) + " is not described",
                "add it to an entry of 'layers', or to 'dense_layers' if it has no experts");
  }

 private:
  std::vector<std::string> places_;
};

void read_layers(spec::Model& model, const YamlNode& document) {
  Cover cover(model.num_layers);
  if (const YamlNode* dense = at(document, "spec.dense_layers")) {
    model.dense_layers = layer_ranges(*dense, model.num_layers);
    cover.add(*dense, model.dense_layers);
  }
  std::map<int64_t, spec::MoELayer> layers;
  if (const YamlNode* entries = at(document, "spec.layers")) {
    for (const YamlNode& entry : entries->items) {
      spec::MoELayer layer = read_layer(entry);
      const std::vector<int64_t> ids = layer_ranges(*entry.find("layers"), model.num_layers);
      cover.add(*entry.find("layers"), ids);
      for (const int64_t id : ids) {
        layer.layer_id = id;
        layers.emplace(id, layer);
      }
    }
  }
  cover.require_all(*document.find("spec"));
  // A model that is only described may be of no known family.
  const bool no_family = model.family.empty() && model.unsupported.empty();
  if (!layers.empty() && (model.hidden_size == 0 || no_family))
    fail_at(document.find("spec")->place(),
            "a model with MoE layers needs a family and a hidden_size", "add them");
  for (auto& [id, layer] : layers) model.layers.push_back(std::move(layer));
}

}  // namespace

spec::Model read_model(const std::filesystem::path& file) {
  const YamlNode document = read_yaml_file(file);
  check_head(document, "Model");
  check(document, model_table());
  spec::Model model;
  set(model.name, at(document, "metadata.name"));
  set(model.family, at(document, "spec.family"));
  model.checkpoint = resolved_path(*at(document, "spec.checkpoint"));
  set(model.hidden_size, at(document, "spec.hidden_size"));
  set(model.num_layers, at(document, "spec.num_layers"));
  set(model.extra_layers, at(document, "spec.extra_layers"));
  set(model.dtype, at(document, "spec.dtype"));
  if (const YamlNode* node = at(document, "spec.quantization"))
    model.quantization = read_quantization(*node);
  if (const YamlNode* reasons = at(document, "spec.unsupported"))
    for (const YamlNode& reason : reasons->items) model.unsupported.push_back(reason.text);
  read_layers(model, document);
  for (const char* key : {"family", "checkpoint", "hidden_size", "num_layers", "dtype",
                          "dense_layers", "layers", "quantization"})
    if (const YamlNode* node = at(document, std::string("spec.") + key))
      model.origin[key] = node->place();
  return model;
}

}  // namespace moert::config
