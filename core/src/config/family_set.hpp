// All family files together: linked to their bases, and matched to a config.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/family_file.hpp"
#include "config/lookup.hpp"
#include "spec/model.hpp"

namespace moert::config {

class FamilySet {
 public:
  // Throw Error(usage) with the place in the file.
  void add(Family family);
  void link();  // once, after the last add

  const Family& named(const std::string& name) const;    // of those that are not abstract
  spec::Tensors tensors(const std::string& name) const;  // of named(), under every root
  std::vector<std::string> names() const;
  std::vector<std::string> nested_keys() const;
  // The family of a config, or nullptr. Throws Error(usage) if its keys contradict each other.
  const Family* match(const std::vector<Scope>& scopes, const std::string& place) const;
  bool has_experts(const std::vector<Scope>& scopes) const;
  // What all families share, and every rule about layers: reads the numbers of a model of no known
  // family, though nobody can say what its tensors mean.
  Family general() const;
  // Fills the layers; what `family`, or the lack of one, keeps from being run goes to `unsupported`.
  void resolve_experts(spec::Model& model, const Family& family, const std::vector<Scope>& scopes,
                       const std::string& place) const;

 private:
  void check_links() const;
  void check_claims() const;
  const Family* by_keys(const nlohmann::json& config, const std::string& place) const;
  const Family* claims(const std::string& word, std::vector<std::string> Family::* list) const;
  std::string unknown_text(const nlohmann::json& config) const;

  std::map<std::string, Family> all_;
};

}  // namespace moert::config
