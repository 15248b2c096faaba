// Finds quantities in a config.json by a family's spellings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/family_file.hpp"
#include "config/quantities.hpp"

namespace moert::config {

// Where keys are looked for: the language model's part first, then the whole file.
struct Scope {
  std::string prefix;  // "" or "text_config."
  const nlohmann::json* object;
};
std::vector<Scope> scopes_of(const nlohmann::json& config, const std::vector<std::string>& nested);

// The value at "a.b", or nullptr.
const nlohmann::json* value_at(const nlohmann::json& object, const std::string& path);

// null, false, 0, "", [] and {}: says nothing.
bool says_nothing(const nlohmann::json& value);

// All getters throw Error(usage) for a value of the wrong type or out of range, and where two
// spellings disagree. Where each value came from is added to `origin`.
class Lookup {
 public:
  Lookup(std::vector<Scope> scopes, const Family& family, std::string place,
         std::map<std::string, std::string>& origin)
      : scopes_(std::move(scopes)),
        family_(family),
        place_(std::move(place)),
        file_(std::filesystem::path(place_).filename().string() + ": "),
        origin_(origin) {}

  // Without a value these throw, listing the spellings that were tried.
  int64_t count(std::string_view name, int64_t limit);
  bool flag(std::string_view name);
  double real(std::string_view name);
  std::string word(std::string_view name);

  std::optional<int64_t> maybe_count(std::string_view name, int64_t limit);
  int64_t size(std::string_view name, int64_t limit) {
    return maybe_count(name, limit).value_or(0);
  }
  std::string word_or(std::string_view name, const std::string& otherwise);
  // One number for each layer, 0 where a list says null; empty: no value at all.
  std::vector<int64_t> per_layer(std::string_view name, int64_t layers, int64_t limit);
  // The same of a real from 0.
  std::vector<double> real_per_layer(std::string_view name, int64_t layers);
  // As written, for quantities with a form of their own; null: no value.
  nlohmann::json raw(std::string_view name);
  // The meaning of one word of a list; throws for one that the family does not know.
  std::string word_in_list(std::string_view name, const std::string& word) const;

  // Lists may go on for the layers of multi-token prediction, which are no part of the model.
  void set_extra_layers(int64_t extra) { extra_layers_ = extra; }
  void require_length(std::string_view name, const nlohmann::json& list, int64_t layers) const;
  [[noreturn]] void fail_missing(std::string_view name) const;
  [[noreturn]] void fail(std::string_view name, const std::string& problem,
                         const std::string& remedy) const;
  const std::string& place() const { return place_; }
  // Does the file itself give the quantity that was read before?
  bool is_given(const std::string& name) const {
    const auto from = origin_.find(name);
    return from != origin_.end() && from->second.starts_with(file_);
  }
  void set_origin(const std::string& name, std::string from) { origin_[name] = std::move(from); }

 private:
  nlohmann::json find(const Quantity& q);
  bool has_word(const std::string& name, const nlohmann::json& value) const;
  nlohmann::json translated(const Quantity& q, const std::string& key,
                            const nlohmann::json& value) const;
  double number(const Quantity& q, const nlohmann::json& value) const;
  int64_t integer(const Quantity& q, const nlohmann::json& value, int64_t low, int64_t high) const;
  std::string spellings_text(std::string_view name) const;

  std::vector<Scope> scopes_;
  const Family& family_;
  std::string place_;
  std::string file_;  // beginning of origins that are keys of the file
  std::map<std::string, std::string>& origin_;
  int64_t extra_layers_ = 0;
};

}  // namespace moert::config
