// Kind Family: how a family's config.json and tensors are to be read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "config/yaml_node.hpp"
#include "spec/family.hpp"

namespace moert::config {

// A value that the family gives, and where it says so.
struct FamilyDefault {
  YamlNode value;
  std::string origin;  // "family olmoe"
};

struct Family {
  std::string name;
  std::string place;    // of the name, for messages
  std::string extends;  // empty: nothing
  bool is_abstract = false;
  std::vector<std::string> model_types, architectures;
  std::vector<std::string> keys;    // all present: recognises files without the two above
  std::string tested;               // "transformers", "reference"; empty: its numbers are not
  std::string unsupported;          // why no model of the family can be run; empty: it can
  std::vector<std::string> nested;  // keys under which a language model's config may lie
  // By quantity. Absent: not said here; an empty list: never read from a config.
  std::map<std::string, std::vector<std::string>> spellings;
  std::map<std::string, FamilyDefault> defaults;
  std::map<std::string, std::map<std::string, YamlNode>> words;
  std::vector<std::string> layer_rules;  // quantities that say which layers are dense
  std::vector<std::string> required;     // quantities of which no default counts
  std::vector<std::string> roots;        // what {root} stands for in tensor names
  struct Refusal {
    std::string key, reason;
    std::vector<std::string> harmless;  // values, as JSON writes them, that ask for nothing
  };
  std::vector<Refusal> refused;
  spec::Tensors tensors;  // names still with {root}
};

Family read_family(const std::filesystem::path& file);
// Fills what `family` does not say from `base`, of which it keeps the ignore rules and refusals too.
void extend(Family& family, const Family& base);

// The section spec.tensors.
spec::Tensors read_tensors(const YamlNode& section);
// The rules with every root in the place of {root}.
spec::Tensors with_roots(const spec::Tensors& tensors, const std::vector<std::string>& roots);
// An ignore rule under which a misspelt tensor of the layers would vanish; nullptr if there is none.
const spec::TensorRule* too_wide(const spec::Tensors& tensors);

}  // namespace moert::config
