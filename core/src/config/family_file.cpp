// Reads a file of kind Family.
// SPDX-License-Identifier: Apache-2.0
#include "config/family_file.hpp"

#include <algorithm>

#include "config/head.hpp"
#include "config/table.hpp"

namespace moert::config {
namespace {

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

void read_quantities(const YamlNode& spec, Family& family) {
  if (const YamlNode* spellings = spec.find("spellings"))
    for (const YamlNode& quantity : spellings->items)
      family.spellings[quantity.key] = texts(&quantity);
  if (const YamlNode* defaults = spec.find("defaults"))
    for (const YamlNode& value : defaults->items)
      family.defaults[value.key] = {value, "family " + family.name};
  if (const YamlNode* words = spec.find("words"))
    for (const YamlNode& quantity : words->items)
      for (const YamlNode& word : quantity.items) family.words[quantity.key][word.key] = word;
}

}  // namespace

Family read_family(const std::filesystem::path& file) {
  const YamlNode document = read_yaml_file(file);
  check_head(document, "Family");
  static const Shape shape = shape_of(family_table());  // there are many families
  check(document, shape);
  Family family;
  const YamlNode& name = *at(document, "metadata.name");
  family.name = name.text;
  family.place = name.place();
  const YamlNode& spec = *document.find("spec");
  family.is_abstract = flag(spec, "abstract");
  if (const YamlNode* base = spec.find("extends")) family.extends = base->text;
  family.model_types = texts(at(spec, "match.model_type"));
  family.architectures = texts(at(spec, "match.architectures"));
  family.keys = texts(at(spec, "match.keys"));
  if (const YamlNode* tested = spec.find("tested")) family.tested = tested->text;
  if (const YamlNode* reason = spec.find("unsupported")) family.unsupported = reason->text;
  family.nested = texts(spec.find("nested"));
  family.required = texts(spec.find("required"));
  family.roots = texts(spec.find("roots"));
  family.layer_rules = texts(spec.find("layers"));
  if (const YamlNode* refuse = spec.find("refuse"))
    for (const YamlNode& item : refuse->items)
      family.refused.push_back(
          {item.find("key")->text, item.find("reason")->text, texts(item.find("unless"))});
  read_quantities(spec, family);
  if (const YamlNode* tensors = spec.find("tensors")) family.tensors = read_tensors(*tensors);
  return family;
}

void extend(Family& family, const Family& base) {
  if (family.nested.empty()) family.nested = base.nested;
  family.spellings.insert(base.spellings.begin(), base.spellings.end());
  family.defaults.insert(base.defaults.begin(), base.defaults.end());
  family.words.insert(base.words.begin(), base.words.end());
  family.refused.insert(family.refused.end(), base.refused.begin(), base.refused.end());
  if (family.layer_rules.empty()) family.layer_rules = base.layer_rules;
  if (family.roots.empty()) family.roots = base.roots;
  if (family.unsupported.empty()) family.unsupported = base.unsupported;
  family.required.insert(family.required.end(), base.required.begin(), base.required.end());
  if (family.tensors.experts.empty()) family.tensors.experts = base.tensors.experts;
  // A kind of rules that the family gives replaces the base's; ignore rules are added.
  const std::vector<spec::TensorRule> own = family.tensors.others;
  for (const spec::TensorRule& rule : base.tensors.others) {
    const bool given = std::any_of(own.begin(), own.end(), [&](const spec::TensorRule& each) {
      return each.target == rule.target;
    });
    if (rule.target == spec::Target::ignore || !given) family.tensors.others.push_back(rule);
  }
}

}  // namespace moert::config
