// Which layers of a model have experts.
// SPDX-License-Identifier: Apache-2.0
#include "config/layer_pattern.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include "config/head.hpp"
#include "util/text.hpp"

namespace moert::config {
namespace {

using Json = nlohmann::json;

std::string shown(const Json& value) { return shortened(value.dump(), 60); }

// A text counts as a list of its letters.
Json words_of(Lookup& lookup) {
  Json value = lookup.raw("layer_words");
  if (!value.is_string()) return value;
  Json list = Json::array();
  for (const char c : value.get_ref<const std::string&>()) list.push_back(std::string(1, c));
  return list;
}

class Pattern {
 public:
  Pattern(Lookup& lookup, int64_t layers)
      : lookup_(lookup), kinds_(static_cast<size_t>(layers), LayerKind::experts) {}

  void first_dense() {
    const int64_t first = lookup_.size("first_dense", kMaxLayers);
    remove([&](int64_t layer) { return layer < first; });
  }
  void sparse_step() {
    const int64_t step = lookup_.maybe_count("sparse_step", kMaxLayers).value_or(1);
    remove([&](int64_t layer) { return (layer + 1) % step != 0; });
  }
  void layer_freq();
  void period() {
    const int64_t period = lookup_.maybe_count("layer_period", kMaxLayers).value_or(1);
    const int64_t offset = lookup_.size("layer_offset", kMaxLayers);
    if (offset >= period)
      lookup_.fail("layer_offset",
                   "is " + std::to_string(offset) + ", which no layer leaves when divided by " +
                       std::to_string(period),
                   "it must be below layer_period");
    remove([&](int64_t layer) { return layer % period != offset; });
  }
  void range() {
    const int64_t first = lookup_.size("layer_start", kMaxLayers);
    int64_t last = lookup_.maybe_count("layer_end", kMaxLayers).value_or(-1);
    if (last < 0) last = count() - 1;
    remove([&](int64_t layer) { return layer < first || layer > last; });
  }
  void dense_list() {
    const std::vector<bool> listed = list("dense_list");
    remove([&](int64_t layer) { return !listed.empty() && listed[static_cast<size_t>(layer)]; });
  }
  void moe_list() {
    const std::vector<bool> listed = list("moe_list");
    remove([&](int64_t layer) { return !listed.empty() && !listed[static_cast<size_t>(layer)]; });
  }
  void layer_words();

  bool has_list() { return !list("moe_list").empty(); }
  bool has_words() { return !words_of(lookup_).is_null(); }
  std::vector<LayerKind> take() { return std::move(kinds_); }

 private:
  int64_t count() const { return static_cast<int64_t>(kinds_.size()); }
  template <class IsDense>
  void remove(IsDense is_dense) {
    for (size_t i = 0; i < kinds_.size(); ++i)
      if (is_dense(static_cast<int64_t>(i))) kinds_[i] = LayerKind::dense;
  }
  std::vector<bool> list(const char* name);
  int64_t listed_layer(const char* name, const Json& item) const;

  Lookup& lookup_;
  std::vector<LayerKind> kinds_;
};

void Pattern::layer_freq() {
  const Json value = lookup_.raw("layer_freq");
  if (value.is_null()) return;
  if (!value.is_array()) {
    const int64_t every = lookup_.count("layer_freq", kMaxLayers);
    return remove([&](int64_t layer) { return layer % every != 0; });
  }
  lookup_.require_length("layer_freq", value, count());
  for (size_t i = 0; i < kinds_.size(); ++i) {
    // Masks are written as numbers or as true and false.
    const bool on = value[i] == 1 || value[i] == true, off = value[i] == 0 || value[i] == false;
    if (!on && !off)
      lookup_.fail("layer_freq", "has the entry " + shown(value[i]),
                   "entries are 0 (dense) or 1 (experts)");
    if (off) kinds_[i] = LayerKind::dense;
  }
}

int64_t Pattern::listed_layer(const char* name, const Json& item) const {
  const bool fits = item.is_number_integer() && item >= 0 && item < count();
  if (!fits)
    lookup_.fail(
        name,
        "has the entry " + shown(item) + ", which is no layer below " + std::to_string(count()),
        "layers are counted from 0");
  return item.get<int64_t>();
}

// "4,5,6" as the list that it stands for.
Json numbers_of(const Lookup& lookup, const char* name, const std::string& text) {
  Json list = Json::array();
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    size_t from = at;
    while (from < end && text[from] == ' ') ++from;
    int64_t value = 0;
    const auto result = std::from_chars(text.data() + from, text.data() + end, value);
    const char* rest = result.ptr;
    while (rest < text.data() + end && *rest == ' ') ++rest;
    if (result.ec != std::errc{} || rest != text.data() + end)
      lookup.fail(name,
                  "is \"" + shortened(text, 60) + "\", where '" + text.substr(at, end - at) +
                      "' is no layer",
                  "write numbers of layers between commas, such as \"4,5,6\"");
    list.push_back(value);
    at = end + 1;
  }
  return list;
}

// For each layer whether the list has it; empty: there is no list.
std::vector<bool> Pattern::list(const char* name) {
  Json value = lookup_.raw(name);
  if (value.is_string() && !value.get_ref<const std::string&>().empty())
    value = numbers_of(lookup_, name, value.get<std::string>());
  if (value.is_null() || value.is_string()) return {};
  if (!value.is_array()) lookup_.fail(name, "is " + shown(value), "write a list of layers");
  std::vector<bool> listed(kinds_.size(), false);
  for (const Json& item : value) listed[static_cast<size_t>(listed_layer(name, item))] = true;
  return listed;
}

void Pattern::layer_words() {
  const Json value = words_of(lookup_);
  if (value.is_null()) return;
  if (!value.is_array())
    lookup_.fail("layer_words", "is " + shown(value), "write a list with a word for each layer");
  lookup_.require_length("layer_words", value, count());
  for (size_t i = 0; i < kinds_.size(); ++i) {
    if (!value[i].is_string())
      lookup_.fail("layer_words", "has the entry " + shown(value[i]), "entries are words");
    const std::string meaning =
        lookup_.word_in_list("layer_words", value[i].get_ref<const std::string&>());
    if (meaning == "dense") kinds_[i] = LayerKind::dense;
    if (meaning == "hash" && kinds_[i] == LayerKind::experts) kinds_[i] = LayerKind::hash;
  }
}

const std::map<std::string, void (Pattern::*)()>& rule_table() {
  static const std::map<std::string, void (Pattern::*)()> rules = {
      {"first_dense", &Pattern::first_dense}, {"layer_freq", &Pattern::layer_freq},
      {"sparse_step", &Pattern::sparse_step}, {"dense_list", &Pattern::dense_list},
      {"period", &Pattern::period},           {"range", &Pattern::range},
      {"moe_list", &Pattern::moe_list},       {"layer_words", &Pattern::layer_words}};
  return rules;
}

}  // namespace

int64_t layer_count(Lookup& lookup) {
  const std::optional<int64_t> given = lookup.maybe_count("num_layers", kMaxLayers);
  if (given) return *given;
  const Json words = words_of(lookup);
  if (!words.is_array() || words.empty() || words.size() > static_cast<size_t>(kMaxLayers))
    return lookup.count("num_layers", kMaxLayers);  // says what is missing
  lookup.set_origin("num_layers", "entries of layer_words");
  return static_cast<int64_t>(words.size());
}

std::vector<LayerKind> layer_pattern(Lookup& lookup, int64_t layers,
                                     const std::vector<std::string>& rules) {
  Pattern pattern(lookup, layers);
  const auto has = [&](const char* rule) {
    return std::find(rules.begin(), rules.end(), rule) != rules.end();
  };
  // A list that names the layers with experts says it all: rules with steps and counts are older ways.
  // So do words for each layer, beside which files keep writing a count of dense ones.
  const bool listed = has("moe_list") && pattern.has_list();
  const bool worded = has("layer_words") && pattern.has_words();
  for (const std::string& rule : rules) {
    if (listed && rule != "moe_list" && rule != "layer_words") continue;
    if (worded && rule == "first_dense") continue;
    (pattern.*rule_table().at(rule))();
  }
  return pattern.take();
}

std::vector<std::string> layer_quantities(const std::vector<std::string>& rules) {
  std::vector<std::string> names;
  for (const std::string& rule : rules) {
    if (rule == "range")
      names.insert(names.end(), {"layer_start", "layer_end"});
    else
      names.push_back(rule == "period" ? "layer_period" : rule);
  }
  return names;
}

std::vector<std::string> layer_rule_names() {
  std::vector<std::string> names;
  for (const auto& [name, _] : rule_table()) names.push_back(name);
  return names;
}

}  // namespace moert::config
