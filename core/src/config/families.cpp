// Reading family files, and resolving a checkpoint by them.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "config/config.hpp"
#include "config/family_set.hpp"
#include "config/head.hpp"
#include "config/json_config.hpp"
#include "config/resolve.hpp"
#include "util/text.hpp"

namespace moert::config {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

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

// Hugging Face's config.json, or a vendor's own params.json where that alone is there, or alone is of a
// known family.
fs::path config_file(const fs::path& checkpoint, const FamilySet& families) {
  fs::path usual = checkpoint / "config.json", vendors = checkpoint / "params.json";
  if (!fs::exists(vendors)) return usual;
  if (!fs::exists(usual)) return vendors;
  const auto is_claimed = [&](const fs::path& file) {
    const Json config = read_config_json(file);
    return families.match(scopes_of(config, families.nested_keys()), file.string()) != nullptr;
  };
  return !is_claimed(usual) && is_claimed(vendors) ? vendors : usual;
}

// A part of another type would be passed over, and the model with it.
void require_objects(const Json& config, const std::vector<std::string>& nested,
                     const std::string& place) {
  for (const std::string& key : nested) {
    const Json* part = value_at(config, key);
    if (part != nullptr && !part->is_object() && !part->is_null())
      throw Error(Fault::usage, key + " is " + shortened(part->dump(), 60) + ", expected an object",
                  place, "the language model's keys stand there");
  }
}

bool is_of_extra_layers(const spec::TensorRule& rule) {
  return rule.pattern.find(kExtraLayer) != std::string::npos;
}

}  // namespace

struct Families::Impl {
  FamilySet set;
};

Families::Families() : impl_(std::make_unique<Impl>()) {}
Families::Families(Families&&) noexcept = default;
Families& Families::operator=(Families&&) noexcept = default;
Families::~Families() = default;

Families Families::load(const std::vector<fs::path>& folders) {
  Families families;
  for (const fs::path& folder : folders)
    for (const fs::path& file : yaml_files(folder)) families.impl_->set.add(read_family(file));
  families.impl_->set.link();
  return families;
}

std::vector<std::string> Families::names() const { return impl_->set.names(); }

std::vector<FamilyInfo> Families::list() const {
  std::vector<FamilyInfo> list;
  for (const std::string& name : names()) {
    const Family& family = impl_->set.named(name);
    list.push_back({name, family.model_types, family.architectures, family.keys, family.tested,
                    family.unsupported});
  }
  return list;
}

spec::Tensors Families::tensors(const std::string& family) const {
  spec::Tensors tensors = impl_->set.tensors(family);
  std::erase_if(tensors.others, is_of_extra_layers);
  return tensors;
}

spec::Tensors Families::tensors(const spec::Model& model) const {
  spec::Tensors tensors = impl_->set.tensors(model.family);
  std::vector<spec::TensorRule> rules;
  rules.swap(tensors.others);
  for (const spec::TensorRule& rule : rules) {
    if (!is_of_extra_layers(rule)) {
      tensors.others.push_back(rule);
      continue;
    }
    const size_t at = rule.pattern.find(kExtraLayer);
    const int64_t end = model.num_layers + model.extra_layers;
    for (int64_t layer = model.num_layers; layer < end; ++layer) {
      tensors.others.push_back(rule);
      tensors.others.back().pattern.replace(at, kExtraLayer.size(), std::to_string(layer));
    }
  }
  return tensors;
}

spec::Model Families::resolve(const fs::path& checkpoint) const {
  const fs::path file = config_file(checkpoint, impl_->set);
  const Json config = read_config_json(file);
  const Family* family =
      impl_->set.match(scopes_of(config, impl_->set.nested_keys()), file.string());
  spec::Model model;
  model.checkpoint = fs::absolute(checkpoint).lexically_normal();
  if (!model.checkpoint.has_filename()) model.checkpoint = model.checkpoint.parent_path();
  model.name = model.checkpoint.filename().string();
  if (family != nullptr) {
    model.family = family->name;
    const bool by_keys = !config.contains("model_type") && !config.contains("architectures");
    model.origin["family"] =
        file.filename().string() + (by_keys ? ": its keys" : ": model_type or architectures");
  }
  const Family any = family == nullptr ? impl_->set.general() : *family;
  require_objects(config, any.nested, file.string());
  const std::vector<Scope> scopes = scopes_of(config, any.nested);
  if (!impl_->set.has_experts(scopes) || says_dense(any, scopes, file.string())) {
    resolve_dense(model, any, scopes, file.string());
    return model;
  }
  impl_->set.resolve_experts(model, any, scopes, file.string());
  return model;
}

}  // namespace moert::config
