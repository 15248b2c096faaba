// All families together: loading their files, and finding a checkpoint's.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "config/config.hpp"
#include "config/family_file.hpp"
#include "config/head.hpp"
#include "config/json_config.hpp"
#include "config/resolve.hpp"
#include "util/nearest.hpp"

namespace moert::config {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Tensors of layers that the model does not have are ignored for so many layers after the last: more
// than any release has multi-token prediction layers.
constexpr int64_t kExtraLayers = 8;
constexpr std::string_view kExtraLayer = "{extra_layer}";

std::vector<fs::path> yaml_files(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator files(folder, error);
  if (error)
    throw Error(Fault::usage, "cannot read the folder of family files: " + error.message(),
                folder.string(), "name a folder with files of kind Family");
  std::vector<fs::path> result;
  for (const fs::directory_entry& file : files)
    if (file.path().extension() == ".yaml" && !file.path().filename().string().starts_with("."))
      result.push_back(file.path());
  std::sort(result.begin(), result.end());
  return result;
}

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

}  // namespace

struct Families::Impl {
  std::map<std::string, Family> all;

  void add(Family family);
  void check_links() const;
  void check_claims() const;
  void link();
  const Family& named(const std::string& name) const;
  const Family* match(const std::vector<Scope>& scopes, const std::string& place) const;
  const Family* claims(const std::string& word, std::vector<std::string> Family::* list) const;
  std::vector<std::string> nested_keys() const;
  bool has_experts(const std::vector<Scope>& scopes) const;
  Family spellings_of_all() const;
  [[noreturn]] void fail_unknown(const std::vector<Scope>& scopes, const std::string& place) const;
  std::vector<std::string> names() const;
};

void Families::Impl::add(Family family) {
  const auto [other, is_new] = all.emplace(family.name, family);
  if (!is_new)
    fail_at(family.place, "the family '" + family.name + "' is described twice",
            "it also stands at " + other->second.place);
}

void Families::Impl::check_links() const {
  for (const auto& [name, family] : all) {
    if (family.extends.empty()) continue;
    const auto base = all.find(family.extends);
    std::vector<std::string> bases;
    for (const auto& [other, each] : all)
      if (each.is_abstract) bases.push_back(other);
    if (base == all.end() || !base->second.is_abstract)
      fail_at(
          family.place,
          "the family '" + name + "' extends '" + family.extends + "', which is no abstract family",
          suggestion(family.extends, bases));
    if (!base->second.extends.empty())
      fail_at(family.place,
              "the family '" + name + "' extends '" + family.extends + "', which extends another",
              "families are extended one level deep");
  }
}

void Families::Impl::check_claims() const {
  std::map<std::string, const Family*> claimed;
  for (const auto& [name, family] : all) {
    for (const auto* list : {&family.model_types, &family.architectures}) {
      for (const std::string& word : *list) {
        const auto [other, is_new] = claimed.emplace(word, &family);
        if (!is_new) fail_claimed(family, *other->second, word);
      }
    }
  }
}

void Families::Impl::link() {
  check_links();
  check_claims();
  for (auto& [name, family] : all)
    if (!family.extends.empty()) extend(family, all.at(family.extends));
}

std::vector<std::string> Families::Impl::names() const {
  std::vector<std::string> result;
  for (const auto& [name, family] : all)
    if (!family.is_abstract) result.push_back(name);
  return result;
}

const Family& Families::Impl::named(const std::string& name) const {
  const auto found = all.find(name);
  if (found != all.end() && !found->second.is_abstract) return found->second;
  throw Error(Fault::usage, "unknown family '" + name + "'", "family files",
              suggestion(name, names()));
}

const Family* Families::Impl::claims(const std::string& word,
                                     std::vector<std::string> Family::* list) const {
  for (const auto& [name, family] : all)
    if (!family.is_abstract && contains(family.*list, word)) return &family;
  return nullptr;
}

// The whole file's own words come before those of a nested part, model_type before architectures.
const Family* Families::Impl::match(const std::vector<Scope>& scopes,
                                    const std::string& place) const {
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
  return nullptr;
}

std::vector<std::string> Families::Impl::nested_keys() const {
  std::vector<std::string> keys;
  for (const auto& [name, family] : all)
    for (const std::string& key : family.nested)
      if (!contains(keys, key)) keys.push_back(key);
  return keys;
}

// A key that speaks of experts and says something. Which keys count must not depend on the family: a
// model that is taken for dense by mistake would pass for one that needs nothing.
bool Families::Impl::has_experts(const std::vector<Scope>& scopes) const {
  std::set<std::string> keys;
  for (const auto& [name, family] : all)
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

Family Families::Impl::spellings_of_all() const {
  Family union_;
  union_.name = "any";
  for (const auto& [name, family] : all)
    if (family.is_abstract) extend(union_, family);
  return union_;
}

void Families::Impl::fail_unknown(const std::vector<Scope>& scopes,
                                  const std::string& place) const {
  const Json& config = *scopes.back().object;
  const std::string type = text_of(config, "model_type");
  const std::string said =
      type.empty() ? "gives no model_type" : "has model_type '" + type.substr(0, 100) + "'";
  throw Error(Fault::usage,
              "the config " + said + " and architectures [" +
                  joined(list_of(config, "architectures")).substr(0, 200) +
                  "], which no family matches, but it speaks of experts",
              place, "known families are: " + joined(names()) + "; add a family file for this one");
}

Families::Families() : impl_(std::make_unique<Impl>()) {}
Families::Families(Families&&) noexcept = default;
Families& Families::operator=(Families&&) noexcept = default;
Families::~Families() = default;

Families Families::load(const std::vector<fs::path>& folders) {
  Families families;
  for (const fs::path& folder : folders)
    for (const fs::path& file : yaml_files(folder)) families.impl_->add(read_family(file));
  families.impl_->link();
  return families;
}

std::vector<std::string> Families::names() const { return impl_->names(); }

spec::Tensors Families::tensors(const std::string& family) const {
  spec::Tensors tensors = impl_->named(family).tensors;
  std::erase_if(tensors.others, [](const spec::TensorRule& rule) {
    return rule.pattern.find(kExtraLayer) != std::string::npos;
  });
  return tensors;
}

spec::Tensors Families::tensors(const spec::Model& model) const {
  spec::Tensors tensors = this->tensors(model.family);
  for (const spec::TensorRule& rule : impl_->named(model.family).tensors.others) {
    const size_t at = rule.pattern.find(kExtraLayer);
    if (at == std::string::npos) continue;
    for (int64_t layer = model.num_layers; layer < model.num_layers + kExtraLayers; ++layer) {
      tensors.others.push_back(rule);
      tensors.others.back().pattern.replace(at, kExtraLayer.size(), std::to_string(layer));
    }
  }
  return tensors;
}

spec::Model Families::resolve(const fs::path& checkpoint) const {
  const fs::path file = checkpoint / "config.json";
  const Json config = read_config_json(file);
  const std::vector<Scope> scopes = scopes_of(config, impl_->nested_keys());
  const Family* family = impl_->match(scopes, file.string());
  spec::Model model;
  model.checkpoint = fs::absolute(checkpoint).lexically_normal();
  if (!model.checkpoint.has_filename()) model.checkpoint = model.checkpoint.parent_path();
  model.name = model.checkpoint.filename().string();
  if (family != nullptr) {
    model.family = family->name;
    model.origin["family"] = "config.json: model_type or architectures";
  }
  if (!impl_->has_experts(scopes)) {
    resolve_dense(model, family != nullptr ? *family : impl_->spellings_of_all(), scopes,
                  file.string());
    return model;
  }
  if (family == nullptr) impl_->fail_unknown(scopes, file.string());
  resolve_layers(model, *family, scopes, file.string());
  return model;
}

}  // namespace moert::config
