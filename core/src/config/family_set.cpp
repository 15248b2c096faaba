// All family files together: linked to their bases, and matched to a config.
// SPDX-License-Identifier: Apache-2.0
#include "config/family_set.hpp"

#include <algorithm>
#include <set>

#include "config/head.hpp"
#include "config/layer_pattern.hpp"
#include "config/resolve.hpp"
#include "util/nearest.hpp"
#include "util/text.hpp"

namespace moert::config {
namespace {

using Json = nlohmann::json;

std::string text_of(const Json& object, const char* key) {
  const Json* value = value_at(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

std::vector<std::string> list_of(const Json& object, const char* key) {
  std::vector<std::string> result;
  const Json* value = value_at(object, key);
  if (value != nullptr && value->is_array())
    for (const Json& item : *value)
      if (item.is_string()) result.push_back(item.get<std::string>());
  return result;
}

[[noreturn]] void fail_claimed(const Family& one, const Family& other, const std::string& word) {
  fail_at(one.place,
          "the families '" + one.name + "' and '" + other.name + "' both match '" + word + "'",
          "remove it from one of them; the other is at " + other.place);
}

bool contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

FamilyDefault assumed(YamlNode::Type type, const std::string& text) {
  FamilyDefault value{{}, "assumed: neither the file nor a family says it"};
  value.value.type = type;
  value.value.text = text;
  return value;
}

}  // namespace

void FamilySet::add(Family family) {
  const auto [other, is_new] = all_.emplace(family.name, family);
  if (!is_new)
    fail_at(family.place, "the family '" + family.name + "' is described twice",
            "it also stands at " + other->second.place);
}

void FamilySet::check_links() const {
  for (const auto& [name, family] : all_) {
    if (family.extends.empty()) continue;
    const auto base = all_.find(family.extends);
    std::vector<std::string> bases;
    for (const auto& [other, each] : all_)
      if (each.is_abstract) bases.push_back(other);
    if (base == all_.end() || !base->second.is_abstract)
      fail_at(
          family.place,
          "the family '" + name + "' extends '" + family.extends + "', which is no abstract family",
          suggestion(family.extends, bases));
  }
  for (const auto& [name, family] : all_) {
    size_t steps = 0;
    for (const Family* each = &family; !each->extends.empty(); each = &all_.at(each->extends))
      if (++steps > all_.size())
        fail_at(family.place, "the family '" + name + "' extends itself in the end",
                "follow its 'extends' and cut the circle");
  }
}

void FamilySet::check_claims() const {
  std::map<std::string, const Family*> claimed;
  for (const auto& [name, family] : all_) {
    for (const auto* list : {&family.model_types, &family.architectures}) {
      for (const std::string& word : *list) {
        const auto [other, is_new] = claimed.emplace(word, &family);
        if (!is_new) fail_claimed(family, *other->second, word);
      }
    }
  }
}

void FamilySet::link() {
  check_links();
  check_claims();
  // From copies of what the files say, so that the order of names is no order of extending.
  const std::map<std::string, Family> as_read = all_;
  for (auto& [name, family] : all_) {
    for (const Family* each = &as_read.at(name); !each->extends.empty();) {
      each = &as_read.at(each->extends);
      extend(family, *each);
    }
    if (family.roots.empty()) family.roots = {"model."};
    if (const spec::TensorRule* rule = too_wide(family.tensors))
      fail_at(family.place, "the ignore rule '" + rule->pattern + "' would hide tensors of experts",
              "name the parts that are not read, such as {root}layers.{layer}.self_attn.*");
  }
}

std::vector<std::string> FamilySet::names() const {
  std::vector<std::string> result;
  for (const auto& [name, family] : all_)
    if (!family.is_abstract) result.push_back(name);
  return result;
}

const Family& FamilySet::named(const std::string& name) const {
  const auto found = all_.find(name);
  if (found != all_.end() && !found->second.is_abstract) return found->second;
  throw Error(Fault::usage, "unknown family '" + name + "'", "family files",
              suggestion(name, names()));
}

spec::Tensors FamilySet::tensors(const std::string& name) const {
  const Family& family = named(name);
  return with_roots(family.tensors, family.roots);
}

const Family* FamilySet::claims(const std::string& word,
                                std::vector<std::string> Family::* list) const {
  for (const auto& [name, family] : all_)
    if (!family.is_abstract && contains(family.*list, word)) return &family;
  return nullptr;
}

// The whole file's own words come before those of a nested part, model_type before architectures.
const Family* FamilySet::match(const std::vector<Scope>& scopes, const std::string& place) const {
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) {
    const Family* by_type = claims(text_of(*scope->object, "model_type"), &Family::model_types);
    const Family* by_class = nullptr;
    for (const std::string& name : list_of(*scope->object, "architectures"))
      if (by_class == nullptr) by_class = claims(name, &Family::architectures);
    if (by_type != nullptr && by_class != nullptr && by_type != by_class)
      throw Error(Fault::usage,
                  "model_type says family '" + by_type->name + "', architectures says '" +
                      by_class->name + "'",
                  place, "correct one of the two keys");
    if (by_type != nullptr || by_class != nullptr) return by_type != nullptr ? by_type : by_class;
  }
  return by_keys(*scopes.back().object, place);
}

// Vendors' own files say neither model_type nor architectures; their keys tell them apart.
const Family* FamilySet::by_keys(const Json& config, const std::string& place) const {
  if (!text_of(config, "model_type").empty() || !list_of(config, "architectures").empty())
    return nullptr;
  const Family* found = nullptr;
  for (const auto& [name, family] : all_) {
    const auto present = [&](const std::string& key) { return value_at(config, key) != nullptr; };
    if (family.is_abstract || family.keys.empty() ||
        !std::all_of(family.keys.begin(), family.keys.end(), present))
      continue;
    if (found != nullptr)
      throw Error(Fault::usage,
                  "the keys fit both family '" + found->name + "' and family '" + name + "'", place,
                  "add model_type to the file");
    found = &family;
  }
  return found;
}

std::vector<std::string> FamilySet::nested_keys() const {
  std::vector<std::string> keys;
  for (const auto& [name, family] : all_)
    for (const std::string& key : family.nested)
      if (!contains(keys, key)) keys.push_back(key);
  return keys;
}

// A key that speaks of experts and says something. Which keys count must not depend on the family: a
// model that is taken for dense by mistake would pass for one that needs nothing.
bool FamilySet::has_experts(const std::vector<Scope>& scopes) const {
  std::set<std::string> keys;
  for (const auto& [name, family] : all_)
    for (const char* quantity : {"num_experts", "top_k"})
      if (const auto found = family.spellings.find(quantity); found != family.spellings.end())
        keys.insert(found->second.begin(), found->second.end());
  for (const Scope& scope : scopes) {
    for (const std::string& key : keys)
      if (const Json* value = value_at(*scope.object, key);
          value != nullptr && !says_nothing(*value))
        return true;
    for (const auto& [key, value] : scope.object->items()) {
      const bool speaks = key.find("expert") != std::string::npos || key.starts_with("moe_");
      if (speaks && !says_nothing(value)) return true;
    }
  }
  return false;
}

// What all families share, and every rule about layers: reads the numbers of a model of no known
// family, though nobody can say what its tensors mean.
Family FamilySet::general() const {
  Family general;
  general.name = "any";
  for (const auto& [name, family] : all_)
    if (family.is_abstract && family.extends.empty()) extend(general, family);
  general.layer_rules = layer_rule_names();
  // A file that leaves these out is described nevertheless: nothing is computed from it.
  general.defaults.try_emplace("renormalize", assumed(YamlNode::Type::boolean, "false"));
  general.defaults.try_emplace("group_score", assumed(YamlNode::Type::string, "max"));
  // Quantities whose spellings the families leave to each other, and whose keys mean one thing only.
  for (const char* quantity :
       {"shared_count", "shared_width", "moe_enabled", "zero_experts", "hash_layers", "latent_size",
        "layer_period", "layer_offset", "layer_start", "layer_end", "moe_list", "layer_words"}) {
    std::vector<std::string>& spellings = general.spellings[quantity];
    for (const auto& [name, family] : all_) {
      const auto found = family.spellings.find(quantity);
      if (found == family.spellings.end()) continue;
      for (const std::string& key : found->second)
        if (!contains(spellings, key)) spellings.push_back(key);
    }
  }
  return general;
}

std::string FamilySet::unknown_text(const Json& config) const {
  const std::string type = text_of(config, "model_type");
  const std::string said =
      type.empty() ? "gives no model_type" : "has model_type '" + shortened(type, 100) + "'";
  return "the config " + said + " and architectures [" +
         shortened(joined(list_of(config, "architectures")), 200) +
         "], which no family matches, but it speaks of experts";
}

// A family that is not run, or not known, explains an error better than the error itself.
void FamilySet::resolve_experts(spec::Model& model, const Family& family,
                                const std::vector<Scope>& scopes, const std::string& place) const {
  const bool known = !model.family.empty();
  const std::string reason = known ? family.unsupported : unknown_text(*scopes.back().object);
  try {
    resolve_layers(model, family, scopes, place);
  } catch (const Error& error) {
    if (reason.empty()) throw;
    if (known)
      throw Error(error.fault(), error.problem(), error.place(),
                  error.remedy() + "; besides, the family is not run: " + reason);
    throw Error(Fault::usage, reason + "; read as one of any family, " + error.problem(), place,
                "known families are: " + joined(names()) + "; add a family file for this one");
  }
  if (!known) model.unsupported.push_back(reason);
}

}  // namespace moert::config
