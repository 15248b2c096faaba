// The tensor rules of a file of kind Family.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>

#include <moert/abi/moe_runner.h>

#include "config/family_file.hpp"
#include "config/head.hpp"
#include "config/table.hpp"
#include "util/nearest.hpp"

namespace moert::config {
namespace {

struct Number {
  const char* word;
  uint32_t value;
};
constexpr Number kParts[] = {{"gate", MOERT_PART_GATE},
                             {"up", MOERT_PART_UP},
                             {"down", MOERT_PART_DOWN},
                             {"sigmoid_gate", MOERT_PART_SIGMOID_GATE}};
constexpr Number kRouterTensors[] = {
    {"gate_weight", MOERT_ROUTER_GATE_WEIGHT},       {"gate_bias", MOERT_ROUTER_GATE_BIAS},
    {"selection_bias", MOERT_ROUTER_SELECTION_BIAS}, {"expert_scale", MOERT_ROUTER_EXPERT_SCALE},
    {"input_scale", MOERT_ROUTER_INPUT_SCALE},       {"token_table", MOERT_ROUTER_TOKEN_TABLE}};

constexpr Number kLayerTensors[] = {{"latent_down", MOERT_PART_LATENT_DOWN},
                                    {"latent_up", MOERT_PART_LATENT_UP},
                                    {"expert_norm", MOERT_PART_EXPERT_NORM},
                                    {"output_bias", MOERT_PART_OUTPUT_BIAS}};
constexpr std::string_view kRoot = "{root}";
constexpr const char* kDenseLayer = "{dense_layer}";

template <size_t N>
uint32_t number_of(const Number (&table)[N], const std::string& word) {
  for (const Number& number : table)
    if (word == number.word) return number.value;
  throw Error(Fault::usage, "'" + word + "' has no number", "family table",
              "report this: a key's words and their use differ");
}

bool flag(const YamlNode& node, const char* key) {
  const YamlNode* value = node.find(key);
  return value != nullptr && value->boolean;
}

// The braces of a name are placeholders, and '*' is for ignore rules only: anywhere else it would
// quietly take tensors that nobody thought of.
void check_name(const YamlNode& at, const std::string& name,
                const std::vector<std::string>& placeholders, bool stars) {
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '*' && !stars)
      fail_at(at.place(), "'*' in the tensor name '" + name + "'", "only ignore rules take it");
    if (name[i] != '{' && name[i] != '}') continue;
    bool known = false;
    for (const std::string& placeholder : placeholders) {
      if (name.compare(i, placeholder.size(), placeholder) != 0) continue;
      i += placeholder.size() - 1;
      known = true;
      break;
    }
    if (!known)
      fail_at(at.place(), "a brace in the tensor name '" + name + "' belongs to no placeholder",
              "placeholders are: " + joined(placeholders));
  }
}

// A name of a tensor that belongs to a layer.
const std::string& layer_name(const YamlNode& rule) {
  const YamlNode& name = *rule.find("name");
  check_name(name, name.text, {"{root}", "{layer}"}, false);
  if (name.text.find("{layer}") == std::string::npos)
    fail_at(name.place(), "the tensor name '" + name.text + "' has no {layer}",
            "write {layer} where the layer's number stands");
  return name.text;
}

// What rules of experts and shared experts have in common, but for the name.
spec::TensorRule read_rule(const YamlNode& node, spec::Target target) {
  spec::TensorRule rule;
  rule.target = target;
  for (const YamlNode& part : node.find("parts")->items)
    rule.parts.push_back(number_of(kParts, part.text));
  const bool pair = rule.parts.size() == 2;
  if (pair && (rule.parts[0] > MOERT_PART_UP || rule.parts[1] > MOERT_PART_UP))
    fail_at(node.find("parts")->place(), "only gate and up share a tensor",
            "give each other part its own rule");
  const YamlNode* role = node.find("role");
  rule.role = role != nullptr && role->text == "bias" ? MOERT_ROLE_BIAS : MOERT_ROLE_WEIGHT;
  rule.flat = flag(node, "flat");
  rule.stacked = flag(node, "stacked") || rule.flat;
  rule.transposed = flag(node, "transposed");
  rule.interleaved = flag(node, "interleaved");
  rule.optional = flag(node, "optional");
  if (rule.interleaved && !pair)
    fail_at(node.find("interleaved")->place(), "one part alone cannot be interleaved",
            "give the rule two parts");
  if (rule.flat && (pair || rule.role == MOERT_ROLE_BIAS))
    fail_at(node.find("flat")->place(), "only the weights of one part can be flat",
            "give each part its own rule");
  return rule;
}

spec::TensorRule read_expert_rule(const YamlNode& node, const YamlNode& prefix) {
  spec::TensorRule rule = read_rule(node, spec::Target::expert);
  const YamlNode& name = *node.find("name");
  rule.pattern = prefix.text + name.text;
  check_name(name, rule.pattern, {"{root}", "{layer}", "{expert}"}, false);
  if (rule.pattern.find("{layer}") == std::string::npos)
    fail_at(prefix.place(), "the tensor name '" + rule.pattern + "' has no {layer}",
            "write {layer} where the layer's number stands");
  if ((rule.pattern.find("{expert}") == std::string::npos) != rule.stacked)
    fail_at(
        name.place(),
        "the tensor '" + rule.pattern + "' must have {expert} in its name, or be stacked or flat",
        "write one of them");
  return rule;
}

void read_layouts(const YamlNode& list, spec::Tensors& tensors) {
  for (const YamlNode& item : list.items) {
    const std::vector<YamlNode>& prefixes = item.find("prefixes")->items;
    for (size_t i = 0; i < prefixes.size(); ++i) {
      spec::Layout layout;
      layout.name = item.find("layout")->text + (i == 0 ? "" : "#" + std::to_string(i + 1));
      for (const YamlNode& each : item.find("rules")->items)
        layout.rules.push_back(read_expert_rule(each, prefixes[i]));
      tensors.experts.push_back(std::move(layout));
    }
  }
}

template <size_t N>
void read_tensor_list(const YamlNode* list, const Number (&table)[N], spec::Target target,
                      spec::Tensors& tensors) {
  if (list == nullptr) return;
  for (const YamlNode& item : list->items) {
    spec::TensorRule rule;
    rule.target = target;
    rule.pattern = layer_name(item);
    rule.parts = {number_of(table, item.find("tensor")->text)};
    rule.optional = flag(item, "optional");
    rule.transposed = flag(item, "transposed");
    tensors.others.push_back(std::move(rule));
  }
}

void read_shared(const YamlNode* list, spec::Tensors& tensors) {
  if (list == nullptr) return;
  for (const YamlNode& item : list->items) {
    tensors.others.push_back(read_rule(item, spec::Target::shared));
    tensors.others.back().pattern = layer_name(item);
  }
}

// Whoever accounts for tensors reads the number right after the text that is spelt out.
void bind_to_dense_layers(const YamlNode& name, spec::TensorRule* rule) {
  const size_t at = rule->pattern.find(kDenseLayer);
  if (at == std::string::npos) return;
  std::string before = rule->pattern.substr(0, at);
  if (before.starts_with(kRoot)) before.erase(0, kRoot.size());
  if (before.find_first_of("*{") != std::string::npos)
    fail_at(name.place(), "more than {root} stands before {dense_layer} in '" + name.text + "'",
            "spell out what comes before the layer's number");
  rule->pattern.replace(at, std::string_view(kDenseLayer).size(), "{layer}");
  rule->dense_only = true;
}

void read_ignored(const YamlNode* list, spec::Tensors& tensors) {
  if (list == nullptr) return;
  for (const YamlNode& item : list->items) {
    for (const YamlNode& name : item.find("names")->items) {
      check_name(name, name.text, {"{root}", "{layer}", "{expert}", kDenseLayer, "{extra_layer}"},
                 true);
      spec::TensorRule rule;
      rule.target = spec::Target::ignore;
      rule.pattern = name.text;
      rule.reason = item.find("reason")->text;
      bind_to_dense_layers(name, &rule);
      tensors.others.push_back(std::move(rule));
    }
  }
}

std::string with_root(std::string pattern, const std::string& root) {
  for (size_t at = pattern.find(kRoot); at != std::string::npos; at = pattern.find(kRoot))
    pattern.replace(at, kRoot.size(), root);
  return pattern;
}

bool has_root(const spec::TensorRule& rule) {
  return rule.pattern.find(kRoot) != std::string::npos;
}

}  // namespace

spec::Tensors read_tensors(const YamlNode& section) {
  spec::Tensors tensors;
  if (const YamlNode* experts = section.find("experts")) read_layouts(*experts, tensors);
  read_tensor_list(section.find("router"), kRouterTensors, spec::Target::router, tensors);
  read_shared(section.find("shared"), tensors);
  read_tensor_list(section.find("layer"), kLayerTensors, spec::Target::layer, tensors);
  read_ignored(section.find("ignore"), tensors);
  return tensors;
}

spec::Tensors with_roots(const spec::Tensors& tensors, const std::vector<std::string>& roots) {
  spec::Tensors result;
  for (const std::string& root : roots) {
    for (spec::Layout layout : tensors.experts) {
      const bool rooted = std::any_of(layout.rules.begin(), layout.rules.end(), has_root);
      if (!rooted && &root != &roots.front()) continue;
      if (rooted && &root != &roots.front()) layout.name += " under " + root;
      for (spec::TensorRule& rule : layout.rules) rule.pattern = with_root(rule.pattern, root);
      result.experts.push_back(std::move(layout));
    }
    for (spec::TensorRule rule : tensors.others) {
      if (!has_root(rule) && &root != &roots.front()) continue;
      rule.pattern = with_root(rule.pattern, root);
      result.others.push_back(std::move(rule));
    }
  }
  return result;
}

const spec::TensorRule* too_wide(const spec::Tensors& tensors) {
  const auto reaches = [](const std::string& beginning, const spec::TensorRule& rule) {
    return rule.target != spec::Target::ignore && rule.pattern.starts_with(beginning);
  };
  for (const spec::TensorRule& rule : tensors.others) {
    if (rule.target != spec::Target::ignore || !rule.pattern.ends_with('*')) continue;
    const std::string beginning = rule.pattern.substr(0, rule.pattern.find('*'));
    const auto hides = [&](const spec::TensorRule& other) { return reaches(beginning, other); };
    if (std::any_of(tensors.others.begin(), tensors.others.end(), hides)) return &rule;
    for (const spec::Layout& layout : tensors.experts)
      if (std::any_of(layout.rules.begin(), layout.rules.end(), hides)) return &rule;
  }
  return nullptr;
}

}  // namespace moert::config
