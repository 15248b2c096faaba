// Reads a file of kind Family.
// SPDX-License-Identifier: Apache-2.0
#include "config/family_file.hpp"

#include <moert/abi/problem.h>
#include <moert/abi/router.h>
#include <moert/abi/shared_experts.h>

#include "config/head.hpp"
#include "config/quantities.hpp"
#include "config/table.hpp"

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

std::vector<std::string> texts(const YamlNode* list) {
  std::vector<std::string> result;
  if (list != nullptr)
    for (const YamlNode& item : list->items) result.push_back(item.text);
  return result;
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
    if (!known) {
      std::string list;
      for (const std::string& placeholder : placeholders)
        list += (list.empty() ? "" : ", ") + placeholder;
      fail_at(at.place(), "a brace in the tensor name '" + name + "' belongs to no placeholder",
              "placeholders are: " + list);
    }
  }
}

void require_layer(const YamlNode& at, const std::string& name) {
  if (name.find("{layer}") == std::string::npos)
    fail_at(at.place(), "the tensor name '" + name + "' has no {layer}",
            "write {layer} where the layer's number stands");
}

spec::TensorRule read_rule(const YamlNode& node, spec::Target target) {
  spec::TensorRule rule;
  rule.target = target;
  rule.pattern = node.find("name")->text;
  for (const YamlNode& part : node.find("parts")->items)
    rule.parts.push_back(number_of(kParts, part.text));
  const bool pair = rule.parts.size() == 2;
  if (pair && (rule.parts[0] > MOERT_PART_UP || rule.parts[1] > MOERT_PART_UP))
    fail_at(node.find("parts")->place(), "only gate and up share a tensor",
            "give each other part its own rule");
  const YamlNode* role = node.find("role");
  rule.role = role != nullptr && role->text == "bias" ? MOERT_ROLE_BIAS : MOERT_ROLE_WEIGHT;
  rule.stacked = flag(node, "stacked");
  rule.transposed = flag(node, "transposed");
  rule.interleaved = flag(node, "interleaved");
  rule.optional = flag(node, "optional");
  if (rule.interleaved && !pair)
    fail_at(node.find("interleaved")->place(), "one part alone cannot be interleaved",
            "give the rule two parts");
  return rule;
}

void read_layouts(const YamlNode& list, spec::Tensors& tensors) {
  for (const YamlNode& item : list.items) {
    const std::vector<YamlNode>& prefixes = item.find("prefixes")->items;
    for (size_t i = 0; i < prefixes.size(); ++i) {
      spec::Layout layout;
      layout.name = item.find("layout")->text + (i == 0 ? "" : "#" + std::to_string(i + 1));
      for (const YamlNode& each : item.find("rules")->items) {
        spec::TensorRule rule = read_rule(each, spec::Target::expert);
        rule.pattern = prefixes[i].text + rule.pattern;
        const YamlNode& name = *each.find("name");
        check_name(name, rule.pattern, {"{layer}", "{expert}"}, false);
        require_layer(prefixes[i], rule.pattern);
        if ((rule.pattern.find("{expert}") == std::string::npos) != rule.stacked)
          fail_at(name.place(),
                  "the tensor '" + rule.pattern + "' must have {expert} in its name, or be stacked",
                  "write one of the two");
        layout.rules.push_back(std::move(rule));
      }
      tensors.experts.push_back(std::move(layout));
    }
  }
}

void read_others(const YamlNode& node, spec::Tensors& tensors) {
  if (const YamlNode* router = node.find("router")) {
    for (const YamlNode& item : router->items) {
      spec::TensorRule rule;
      rule.target = spec::Target::router;
      rule.pattern = item.find("name")->text;
      rule.parts = {number_of(kRouterTensors, item.find("tensor")->text)};
      rule.optional = flag(item, "optional");
      check_name(*item.find("name"), rule.pattern, {"{layer}"}, false);
      require_layer(*item.find("name"), rule.pattern);
      tensors.others.push_back(std::move(rule));
    }
  }
  if (const YamlNode* shared = node.find("shared")) {
    for (const YamlNode& item : shared->items) {
      tensors.others.push_back(read_rule(item, spec::Target::shared));
      check_name(*item.find("name"), tensors.others.back().pattern, {"{layer}"}, false);
      require_layer(*item.find("name"), tensors.others.back().pattern);
    }
  }
}

// An ignore rule that ends in '*' right after a layer's number would hide misspelt expert tensors.
void check_narrow(const YamlNode& name) {
  for (const char* wide :
       {"*", "model.*", "model.layers.*", "model.layers.{layer}.*", "model.layers.{layer}.mlp.*"})
    if (name.text == wide)
      fail_at(name.place(), "the ignore rule '" + name.text + "' would hide tensors of experts",
              "name the parts that are not read, such as model.layers.{layer}.self_attn.*");
}

void read_ignored(const YamlNode& list, spec::Tensors& tensors) {
  for (const YamlNode& item : list.items) {
    for (const YamlNode& name : item.find("names")->items) {
      check_name(name, name.text, {"{layer}", "{expert}", "{extra_layer}"}, true);
      check_narrow(name);
      spec::TensorRule rule;
      rule.target = spec::Target::ignore;
      rule.pattern = name.text;
      rule.reason = item.find("reason")->text;
      tensors.others.push_back(std::move(rule));
    }
  }
}

void read_quantities(const YamlNode& document, Family& family) {
  for (const Quantity& q : quantities()) {
    const std::string name(q.name);
    if (const YamlNode* spellings = at(document, "spec.spellings." + name))
      family.spellings[name] = texts(spellings);
    if (const YamlNode* value = at(document, "spec.defaults." + name))
      family.defaults[name] = {*value, "family " + family.name};
    if (const YamlNode* words = at(document, "spec.words." + name))
      for (const YamlNode& word : words->items) family.words[name][word.key] = word;
  }
}

}  // namespace

Family read_family(const std::filesystem::path& file) {
  const YamlNode document = read_yaml_file(file);
  check_head(document, "Family");
  check(document, family_table());
  Family family;
  const YamlNode& name = *at(document, "metadata.name");
  family.name = name.text;
  family.place = name.place();
  const YamlNode& spec = *document.find("spec");
  family.is_abstract = flag(spec, "abstract");
  if (const YamlNode* base = spec.find("extends")) family.extends = base->text;
  family.model_types = texts(at(spec, "match.model_type"));
  family.architectures = texts(at(spec, "match.architectures"));
  family.nested = texts(spec.find("nested"));
  family.layer_rules = texts(spec.find("layers"));
  if (const YamlNode* refuse = spec.find("refuse"))
    for (const YamlNode& item : refuse->items)
      family.refused.emplace_back(item.find("key")->text, item.find("reason")->text);
  read_quantities(document, family);
  if (const YamlNode* tensors = spec.find("tensors")) {
    if (const YamlNode* experts = tensors->find("experts")) read_layouts(*experts, family.tensors);
    read_others(*tensors, family.tensors);
    if (const YamlNode* ignored = tensors->find("ignore")) read_ignored(*ignored, family.tensors);
  }
  return family;
}

void extend(Family& family, const Family& base) {
  if (family.nested.empty()) family.nested = base.nested;
  family.spellings.insert(base.spellings.begin(), base.spellings.end());
  family.defaults.insert(base.defaults.begin(), base.defaults.end());
  family.words.insert(base.words.begin(), base.words.end());
  family.refused.insert(family.refused.end(), base.refused.begin(), base.refused.end());
  if (family.layer_rules.empty()) family.layer_rules = base.layer_rules;
  if (family.tensors.experts.empty()) family.tensors.experts = base.tensors.experts;
  family.tensors.others.insert(family.tensors.others.end(), base.tensors.others.begin(),
                               base.tensors.others.end());
}

}  // namespace moert::config
