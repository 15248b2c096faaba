// Kind Model: its keys, and reading it.
// SPDX-License-Identifier: Apache-2.0
#include "config/config.hpp"
#include "config/head.hpp"
#include "config/table.hpp"

namespace moert::config {
namespace {

Table model_keys() {
  return {
      {.path = "spec.family",
       .pattern = kNamePattern,
       .doc = "family whose file names the tensors; needed where there are MoE layers"},
      {.path = "spec.checkpoint",
       .type = Type::path,
       .required = true,
       .doc = "folder with the safetensors files"},
      {.path = "spec.hidden_size",
       .type = Type::integer,
       .required = true,
       .min = 0,
       .max = kMaxWidth,
       .doc = "H: width of a token's row; 0 only where there are no MoE layers"},
      {.path = "spec.num_layers",
       .type = Type::integer,
       .required = true,
       .min = 0,
       .max = kMaxLayers,
       .doc = "number of layers, dense ones included"},
      {.path = "spec.dtype",
       .type = Type::word,
       .words = dtype_names(),
       .doc = "what the model's own config says; the files decide"},
      {.path = "spec.dense_layers",
       .type = Type::ranges,
       .pattern = kRanges,
       .doc = "layers without experts; every other layer stands in one entry of spec.layers"},
  };
}

Table layer_keys() {
  return {
      {.path = "spec.layers",
       .type = Type::list,
       .fallback = "[]",
       .doc = "MoE layers, those with equal numbers in one entry"},
      {.path = "spec.layers[]", .type = Type::map},
      {.path = "spec.layers[].layers",
       .type = Type::ranges,
       .required = true,
       .pattern = kRanges,
       .doc = "the layers that this entry describes: 3 or 1-5,7"},
      {.path = "spec.layers[].intermediate_size",
       .type = Type::integer,
       .required = true,
       .min = 1,
       .max = kMaxWidth,
       .doc = "I: width of one routed expert"},
      {.path = "spec.layers[].gated",
       .type = Type::boolean,
       .fallback = "true",
       .doc = "whether an expert is down(act(gate) * up), or down(act(up))"},
      {.path = "spec.layers[].bias",
       .type = Type::boolean,
       .fallback = "false",
       .doc = "whether experts have biases"},
      {.path = "spec.layers[].scheme",
       .doc = "weight format; without it, as the checkpoint's tensors say"},
      {.path = "spec.layers[].activation", .type = Type::map},
      {.path = "spec.layers[].activation.name",
       .type = Type::word,
       .fallback = "silu",
       .words = activation_names(),
       .doc = "function between an expert's projections"},
      {.path = "spec.layers[].activation.alpha",
       .type = Type::number,
       .fallback = "0",
       .doc = "its parameter, if it has one"},
      {.path = "spec.layers[].activation.beta",
       .type = Type::number,
       .fallback = "0",
       .doc = "its parameter, if it has one"},
      {.path = "spec.layers[].activation.limit",
       .type = Type::number,
       .fallback = "0",
       .min = 0,
       .doc = "clamp; 0 is none"},
  };
}

Table routing_keys() {
  const std::string r = "spec.layers[].routing";
  return {
      {.path = r,
       .type = Type::map,
       .required = true,
       .doc = "how a token's experts are chosen and weighed"},
      {.path = r + ".method",
       .type = Type::word,
       .fallback = "topk",
       .words = {"topk"},
       .doc = "rule of choice"},
      {.path = r + ".scoring",
       .type = Type::word,
       .fallback = "softmax",
       .words = scoring_names(),
       .doc = "from logits to scores"},
      {.path = r + ".num_experts",
       .type = Type::integer,
       .required = true,
       .min = 1,
       .max = kMaxExperts,
       .doc = "E: routed experts of the layer"},
      {.path = r + ".top_k",
       .type = Type::integer,
       .required = true,
       .min = 1,
       .max = kMaxExperts,
       .doc = "k: experts that a token visits"},
      {.path = r + ".renormalize",
       .type = Type::boolean,
       .fallback = "false",
       .doc = "whether a token's weights are divided by their sum"},
      {.path = r + ".renormalize_eps",
       .type = Type::number,
       .fallback = "0",
       .min = 0,
       .max = 1,
       .doc = "added to that sum"},
  };
}

Table weighing_keys() {
  const std::string r = "spec.layers[].routing";
  return {
      {.path = r + ".routed_scale",
       .type = Type::number,
       .fallback = "1",
       .min = 1e-30,
       .max = 1e30,
       .doc = "factor on what the routed experts give"},
      {.path = r + ".scale_on",
       .type = Type::word,
       .fallback = "weights",
       .words = {"weights", "output"},
       .doc = "where the factor is applied"},
      {.path = r + ".selection_bias",
       .type = Type::boolean,
       .fallback = "false",
       .doc = "whether a bias per expert is added for the choice, but not for the weights"},
      {.path = r + ".gate_bias",
       .type = Type::boolean,
       .fallback = "false",
       .doc = "whether logits have a bias"},
      {.path = r + ".num_groups",
       .type = Type::integer,
       .fallback = "1",
       .min = 1,
       .max = kMaxExperts,
       .doc = "groups that the experts are cut into; 1 is no grouping"},
      {.path = r + ".top_groups",
       .type = Type::integer,
       .fallback = "1",
       .min = 1,
       .max = kMaxExperts,
       .doc = "groups that stay in the choice"},
      {.path = r + ".group_score",
       .type = Type::word,
       .words = group_score_names(),
       .doc = "a group's score: its best expert's, or the sum of its two best (of what there is, "
              "in groups of one)"},
  };
}

Table shared_keys() {
  const std::string s = "spec.layers[].shared_experts";
  return {
      {.path = s,
       .type = Type::map,
       .doc = "experts that every token visits; none without this key"},
      {.path = s + ".count",
       .type = Type::integer,
       .required = true,
       .min = 1,
       .max = kMaxExperts,
       .doc = "how many there are"},
      {.path = s + ".intermediate_size",
       .type = Type::integer,
       .required = true,
       .min = 1,
       .max = kMaxWidth,
       .doc = "their width, all of them together"},
      {.path = s + ".sigmoid_gate",
       .type = Type::boolean,
       .fallback = "false",
       .doc = "whether their output is multiplied by the sigmoid of a gate"},
  };
}

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
  set(r.top_k, node.find("top_k"));
  set(r.renormalize, node.find("renormalize"));
  set(r.renormalize_eps, node.find("renormalize_eps"));
  set(r.routed_scale, node.find("routed_scale"));
  r.scale_on_output = node.find("scale_on") != nullptr && node.find("scale_on")->text == "output";
  set(r.selection_bias, node.find("selection_bias"));
  set(r.gate_bias, node.find("gate_bias"));
  set(r.num_groups, node.find("num_groups"));
  set(r.top_groups, node.find("top_groups"));
  set(r.group_score, node.find("group_score"));
  return r;
}

spec::MoELayer read_layer(const YamlNode& node) {
  spec::MoELayer layer;
  set(layer.intermediate_size, node.find("intermediate_size"));
  set(layer.gated, node.find("gated"));
  set(layer.bias, node.find("bias"));
  set(layer.scheme, node.find("scheme"));
  set(layer.activation.name, at(node, "activation.name"));
  set(layer.activation.alpha, at(node, "activation.alpha"));
  set(layer.activation.beta, at(node, "activation.beta"));
  set(layer.activation.limit, at(node, "activation.limit"));
  layer.routing = read_routing(*node.find("routing"));
  if (const YamlNode* shared = node.find("shared_experts")) {
    layer.shared.emplace();
    set(layer.shared->count, shared->find("count"));
    set(layer.shared->intermediate_size, shared->find("intermediate_size"));
    set(layer.shared->sigmoid_gate, shared->find("sigmoid_gate"));
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
  if (!layers.empty() && (model.hidden_size == 0 || model.family.empty()))
    fail_at(document.find("spec")->place(),
            "a model with MoE layers needs a family and a hidden_size", "add them");
  for (auto& [id, layer] : layers) model.layers.push_back(std::move(layer));
}

}  // namespace

const Table& model_table() {
  static const Table table = [] {
    Table all = head_table("Model");
    for (const Table& part :
         {model_keys(), layer_keys(), routing_keys(), weighing_keys(), shared_keys()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return table;
}

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
  set(model.dtype, at(document, "spec.dtype"));
  read_layers(model, document);
  for (const char* key :
       {"family", "checkpoint", "hidden_size", "num_layers", "dtype", "dense_layers", "layers"})
    if (const YamlNode* node = at(document, std::string("spec.") + key))
      model.origin[key] = node->place();
  return model;
}

}  // namespace moert::config
