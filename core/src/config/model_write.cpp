// Writes a Model as YAML for people: grouped layers, and where each value came from.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <charconv>
#include <sstream>

#include "config/config.hpp"
#include "config/head.hpp"

namespace moert::config {
namespace {

// A text in double quotes, unless it is a plain word that stays text without them.
std::string quoted(const std::string& text) {
  const bool plain =
      !text.empty() && text.find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-") ==
                           std::string::npos;
  if (plain && std::isalpha(static_cast<unsigned char>(text[0])) != 0) {
    YamlNode node;
    node.text = text;
    resolve_plain(node);
    if (node.type == YamlNode::Type::string && text != "null" && text != "Null" && text != "NULL")
      return text;
  }
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) {
      out += c;
      continue;
    }
    constexpr const char* kHex = "0123456789abcdef";
    out += std::string("\\x") + kHex[(c >> 4) & 15] + kHex[c & 15];
  }
  return out + '"';
}

// The shortest text that reads back as the same number.
std::string shortest(double value) {
  std::array<char, 32> digits{};
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), result.ptr};
}

std::string ranges_text(const std::vector<int64_t>& layers) {
  std::string text;
  for (size_t i = 0; i < layers.size();) {
    size_t last = i;
    while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(layers[i]);
    if (last > i) text += "-" + std::to_string(layers[last]);
    i = last + 1;
  }
  return text;
}

class Writer {
 public:
  explicit Writer(const spec::Model& model) : model_(model) {}

  std::string text() {
    out_ << "# Written by `moert model describe`; comments say where values came from.\n"
         << "apiVersion: moert/v1\nkind: Model\nmetadata:\n  name: " << quoted(model_.name)
         << "\nspec:\n";
    indent_ = "  ";
    if (!model_.family.empty()) line("family", quoted(model_.family), "family");
    line("checkpoint", quoted(model_.checkpoint.string()), "");
    line("hidden_size", std::to_string(model_.hidden_size), "hidden_size");
    line("num_layers", std::to_string(model_.num_layers), "num_layers");
    if (model_.extra_layers != 0)
      line("extra_layers", std::to_string(model_.extra_layers), "extra_layers");
    if (!model_.dtype.empty()) line("dtype", model_.dtype, "dtype");
    if (model_.quantization) write_quantization(*model_.quantization);
    if (!model_.dense_layers.empty())
      line("dense_layers", quoted_ranges(model_.dense_layers), "layers");
    if (!model_.unsupported.empty()) out_ << indent_ << "unsupported:\n";
    for (const std::string& reason : model_.unsupported)
      out_ << indent_ << "  - " << quoted(reason) << '\n';
    write_groups();
    return out_.str();
  }

 private:
  static std::string quoted_ranges(const std::vector<int64_t>& layers) {
    return '"' + ranges_text(layers) + '"';
  }

  void line(const std::string& key, const std::string& value, const std::string& quantity) {
    out_ << indent_ << key << ": " << value;
    const auto origin = model_.origin.find(quantity);
    // A line break in a comment would end it.
    if (origin != model_.origin.end() && origin->second.find_first_of("\n\r") == std::string::npos)
      out_ << "  # " << origin->second;
    out_ << '\n';
  }
  void line(const std::string& key, bool value, const std::string& quantity) {
    line(key, std::string(value ? "true" : "false"), quantity);
  }

  static std::string list_text(const std::vector<std::string>& items) {
    std::string text = "[";
    for (const std::string& item : items) text += (text.size() > 1 ? ", " : "") + quoted(item);
    return text + "]";
  }

  void write_quantization(const spec::Quantization& q) {
    out_ << "  quantization:\n";
    indent_ = "    ";
    line("method", quoted(q.method), "quantization");
    if (!q.groups.empty()) out_ << indent_ << "groups:\n";
    for (const spec::FormatGroup& group : q.groups) {
      indent_ = "      - ";
      line("kind", quoted(group.format.kind), "");
      indent_ = "        ";
      if (!group.targets.empty()) line("targets", list_text(group.targets), "");
      const std::pair<const char*, const std::string*> words[] = {
          {"blocks", &group.format.blocks},   {"activations", &group.format.activations},
          {"global", &group.format.global},   {"zeros", &group.format.zeros},
          {"nibbles", &group.format.nibbles}, {"column_groups", &group.format.column_groups}};
      for (const auto& [key, word] : words)
        if (!word->empty()) line(key, quoted(*word), "");
    }
    indent_ = "    ";
    if (!q.excluded.empty()) line("excluded", list_text(q.excluded), "");
    indent_ = "  ";
  }

  void write_groups() {
    std::vector<std::vector<int64_t>> groups;
    std::vector<const spec::MoELayer*> first;
    for (const spec::MoELayer& layer : model_.layers) {
      size_t group = 0;
      while (group < first.size() && !first[group]->same_but_for_id(layer)) ++group;
      if (group == first.size()) {
        first.push_back(&layer);
        groups.emplace_back();
      }
      groups[group].push_back(layer.layer_id);
    }
    out_ << indent_ << (first.empty() ? "layers: []\n" : "layers:\n");
    for (size_t i = 0; i < first.size(); ++i) write_layer(*first[i], groups[i]);
  }

  void write_layer(const spec::MoELayer& layer, const std::vector<int64_t>& ids) {
    indent_ = "    - ";
    line("layers", quoted_ranges(ids), "layers");
    indent_ = "      ";
    line("intermediate_size", std::to_string(layer.intermediate_size), "intermediate_size");
    line("gated", layer.gated, "gated");
    line("bias", layer.bias, "bias");
    if (layer.weight_on_input) line("weight_on_input", true, "weight_on_input");
    if (layer.output_bias) line("output_bias", true, "output_bias");
    if (layer.latent_size != 0)
      line("latent_size", std::to_string(layer.latent_size), "latent_size");
    if (layer.expert_norm != "none") {
      line("expert_norm", layer.expert_norm, "expert_norm");
      line("expert_norm_eps", shortest(layer.expert_norm_eps), "expert_norm_eps");
    }
    if (!layer.scheme.empty()) line("scheme", quoted(layer.scheme), "scheme");
    open("activation");
    write_activation(layer.activation, "activation_limit");
    indent_ = "      ";
    write_routing(layer.routing);
    if (layer.shared) write_shared(*layer.shared, layer.activation);
    indent_ = "  ";
  }

  // The quantity that gave the limit also tells where a name came from that only layers with one have.
  void write_activation(const spec::Activation& activation, const std::string& limit) {
    const bool limited = activation.limit != 0 && model_.origin.contains("limited_activation");
    line("name", activation.name, limited ? "limited_activation" : "activation");
    if (activation.alpha != 0) line("alpha", shortest(activation.alpha), "activation_alpha");
    if (activation.beta != 0) line("beta", shortest(activation.beta), "activation_beta");
    if (activation.limit != 0) line("limit", shortest(activation.limit), limit);
  }

  void write_routing(const spec::Routing& r) {
    open("routing");
    line("method", r.method, "routing_method");
    line("scoring", r.scoring, "scoring");
    line("num_experts", std::to_string(r.num_experts), "num_experts");
    if (r.zero_experts != 0) line("zero_experts", std::to_string(r.zero_experts), "zero_experts");
    line("top_k", std::to_string(r.top_k), "top_k");
    if (r.logit_scale != 1) line("logit_scale", shortest(r.logit_scale), "logit_scale");
    if (r.logit_softcap != 0) line("logit_softcap", shortest(r.logit_softcap), "logit_softcap");
    if (r.jitter_eps != 0) line("jitter_eps", shortest(r.jitter_eps), "jitter_eps");
    line("renormalize", r.renormalize, "renormalize");
    line("renormalize_eps", shortest(r.renormalize_eps), "renormalize_eps");
    if (r.renormalize_floor != 0)
      line("renormalize_floor", shortest(r.renormalize_floor), "renormalize_floor");
    line("routed_scale", shortest(r.routed_scale), "routed_scale");
    line("scale_on", r.scale_on_output ? std::string("output") : std::string("weights"),
         "scale_on");
    line("selection_bias", r.selection_bias, "selection_bias");
    if (r.bias_on_logits) line("selection_bias_on", std::string("logits"), "selection_bias_on");
    line("gate_bias", r.gate_bias, "gate_bias");
    if (r.expert_scale) line("expert_scale", true, "expert_scale");
    if (r.unit_input) {
      line("input", std::string("unit"), "router_input");
      line("input_eps", shortest(r.unit_input_eps), "router_input_eps");
    }
    line("num_groups", std::to_string(r.num_groups), "num_groups");
    line("top_groups", std::to_string(r.top_groups), "top_groups");
    if (!r.group_score.empty()) line("group_score", r.group_score, "group_score");
    indent_ = "      ";
  }

  void write_shared(const spec::SharedExperts& shared, const spec::Activation& routed) {
    open("shared_experts");
    line("count", std::to_string(shared.count), "shared_count");
    line("intermediate_size", std::to_string(shared.intermediate_size), "shared_width");
    line("sigmoid_gate", shared.sigmoid_gate, "shared_sigmoid_gate");
    if (shared.average) line("combine", std::string("average"), "shared_combine");
    if (shared.activation == routed) return;
    out_ << indent_ << "activation:\n";
    indent_ += "  ";
    write_activation(shared.activation,
                     model_.origin.contains("shared_limit") ? "shared_limit" : "activation_limit");
  }

  void open(const std::string& key) {
    out_ << indent_ << key << ":\n";
    indent_ = "        ";
  }

  const spec::Model& model_;
  std::ostringstream out_;
  std::string indent_;
};

}  // namespace

std::string write_model(const spec::Model& model) { return Writer(model).text(); }

}  // namespace moert::config
