// YAML and config.json -> typed specs. The only room that knows yaml-cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "spec/expert_scheme.hpp"
#include "spec/family.hpp"
#include "spec/model.hpp"
#include "spec/run.hpp"

namespace moert::config {

// A family as a line of a list.
struct FamilyInfo {
  std::string name;
  std::vector<std::string> model_types, architectures, keys;  // how it is recognised
  std::string tested;       // against whose numbers: "transformers", "reference"; empty: none
  std::string unsupported;  // why its models are described but not run; empty: they are run
};

// All family files of some folders, read and checked.
class Families {
 public:
  // Later folders add to earlier ones; a name that stands in two files is an error. Throws
  // Error(usage) with file:line:column.
  static Families load(const std::vector<std::filesystem::path>& folders);
  Families();
  Families(Families&&) noexcept;
  Families& operator=(Families&&) noexcept;
  ~Families();

  std::vector<std::string> names() const;
  std::vector<FamilyInfo> list() const;  // by name
  // Tensor rules of a family; throws Error(usage) with the nearest name. Given a model, they also
  // ignore what the family says of layers after the model's last ("{extra_layer}": multi-token
  // prediction), which needs the number of layers.
  spec::Tensors tensors(const spec::Model& model) const;
  spec::Tensors tensors(const std::string& family) const;
  // Reads DIR/config.json, finds the family, resolves every quantity. Throws Error(usage) if no family
  // matches or a quantity has no value (the error lists every spelling tried), Error(input) if the
  // file is damaged. A dense model has no layers.
  spec::Model resolve(const std::filesystem::path& checkpoint) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// `value` overrides the key path `key` ("spec.device" or "device"); `source` names where it came from.
struct Override {
  std::string key, value, source;
};

// Reads a Run. Relative paths are relative to the file. Overrides are applied in order, later ones
// win; each must name a key that a Run can have. Throws Error(usage) with file:line:column.
spec::Run read_run(const std::filesystem::path& file, const std::vector<Override>& overrides = {});

// Reads a Model YAML, and writes one. read(write(m)) == m but for origin.
spec::Model read_model(const std::filesystem::path& file);
std::string write_model(const spec::Model& model);

// Reads a file of kind Experts. Throws Error(usage) with file:line:column.
std::vector<spec::ExpertScheme> read_experts(const std::filesystem::path& file);

// Kind of a YAML file ("Run", "Model", "Family", "Experts"), from its head. Throws Error(usage).
std::string kind_of(const std::filesystem::path& file);

// The JSON schema for editors, made from the same tables as the parser.
std::string json_schema();

}  // namespace moert::config
