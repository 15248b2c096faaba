// Finds quantities in a config.json by a family's spellings.
// SPDX-License-Identifier: Apache-2.0
#include "config/lookup.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "util/nearest.hpp"
#include "util/text.hpp"

namespace moert::config {
namespace {

using Json = nlohmann::json;

std::string shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return shortened(text, 57) + " (" + value.type_name() + ")";
}

std::string said(const std::string& key, const Json& value) { return key + " is " + shown(value); }

bool is_zero(const Json& value) { return value.is_number() && value.get<double>() == 0; }

// Does the value leave the quantity open?
bool is_absent(const Quantity& q, const Json& value) {
  if (value.is_null()) return true;
  if (value.is_array() && q.per_layer) {
    for (const Json& item : value)
      if (!is_absent(q, item)) return false;
    return true;
  }
  if (q.kind == QuantityKind::count) return is_zero(value);
  return q.kind == QuantityKind::word && value.is_string() &&
         value.get_ref<const std::string&>().empty();
}

Json fallback_of(const Quantity& q) {
  if (q.kind == QuantityKind::word) return std::string(q.fallback);
  return Json::parse(q.fallback);
}

// What a value is called under `words`: itself, as JSON writes it where it is no text.
std::optional<std::string> word_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_structured()) return std::nullopt;
  return value.dump();
}

int64_t least(const Quantity& q) {
  if (q.kind == QuantityKind::last_layer) return -1;
  return q.kind == QuantityKind::size ? 0 : 1;
}

Json json_of(const YamlNode& node) {
  switch (node.type) {
    case YamlNode::Type::boolean: return node.boolean;
    case YamlNode::Type::integer: return node.integer;
    case YamlNode::Type::number: return node.number;
    default: return node.text;
  }
}

}  // namespace

const Json* value_at(const Json& object, const std::string& path) {
  const Json* value = &object;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('.', at), path.size());
    if (!value->is_object()) return nullptr;
    const auto found = value->find(path.substr(at, end - at));
    if (found == value->end()) return nullptr;
    value = &*found;
    at = end + 1;
  }
  return value;
}

std::vector<Scope> scopes_of(const Json& config, const std::vector<std::string>& nested) {
  std::vector<Scope> scopes;
  for (const std::string& key : nested) {
    const Json* inner = value_at(config, key);
    if (inner == nullptr || !inner->is_object()) continue;
    scopes.push_back({key + ".", inner});
    break;
  }
  scopes.push_back({"", &config});
  return scopes;
}

bool says_nothing(const Json& value) {
  if (value.is_null() || is_zero(value)) return true;
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_structured() && value.empty();
}

std::string Lookup::spellings_text(std::string_view name) const {
  const auto found = family_.spellings.find(std::string(name));
  if (found == family_.spellings.end() || found->second.empty()) return "none is known";
  return joined(found->second);
}

void Lookup::fail(std::string_view name, const std::string& problem,
                  const std::string& remedy) const {
  // The file's own word first: whoever reads this looks for it there.
  std::string subject(name);
  const auto origin = origin_.find(subject);
  if (is_given(subject)) {
    const std::string rest = origin->second.substr(file_.size());
    const std::string key = rest.substr(0, rest.find(' '));  // a note on lists may follow it
    if (key != name) subject = key + " (" + subject + ")";
  }
  throw Error(Fault::usage, subject + " " + problem, place_, remedy);
}

void Lookup::fail_missing(std::string_view name) const {
  throw Error(Fault::usage,
              "nothing gives " + std::string(name) + " (" + std::string(quantity(name).doc) + ")",
              place_,
              "spellings tried: " + spellings_text(name) +
                  "; add one of them, or a spelling to the family '" + family_.name + "'");
}

// null is a value where the family gives it a meaning; elsewhere it is as good as absent.
bool Lookup::has_word(const std::string& name, const Json& value) const {
  const auto words = family_.words.find(name);
  return value.is_null() && words != family_.words.end() && words->second.contains("null");
}

Json Lookup::translated(const Quantity& q, const std::string& key, const Json& value) const {
  const auto words = family_.words.find(std::string(q.name));
  const std::optional<std::string> word = word_of(value);
  const bool number = value.is_number() && q.kind == QuantityKind::real;
  if (!word || words == family_.words.end() || number || q.kind == QuantityKind::layer_words)
    return value;
  const auto meaning = words->second.find(*word);
  if (meaning != words->second.end()) return json_of(meaning->second);
  if (value.is_boolean() && q.kind == QuantityKind::flag) return value;
  if (words->second.size() == 1 && words->second.contains("null")) return value;  // no word at all
  std::vector<std::string> known;
  for (const auto& [each, _] : words->second) known.push_back(each);
  throw Error(Fault::usage,
              key + " is '" + shortened(*word, 100) + "', which the family '" + family_.name +
                  "' does not know",
              place_, "words known for " + std::string(q.name) + ": " + joined(known));
}

std::string Lookup::word_in_list(std::string_view name, const std::string& word) const {
  const auto words = family_.words.find(std::string(name));
  std::vector<std::string> known;
  if (words != family_.words.end()) {
    const auto meaning = words->second.find(word);
    if (meaning != words->second.end()) return meaning->second.text;
    for (const auto& [each, _] : words->second) known.push_back(each);
  }
  fail(name,
       "has the entry '" + shortened(word, 100) + "', which the family '" + family_.name +
           "' does not know",
       "words known: " + joined(known));
}

Json Lookup::find(const Quantity& q) {
  const std::string name(q.name);
  Json result;
  std::string from;
  const auto spellings = family_.spellings.find(name);
  for (const std::string& spelling :
       spellings == family_.spellings.end() ? std::vector<std::string>{} : spellings->second) {
    for (const Scope& scope : scopes_) {
      const Json* value = value_at(*scope.object, spelling);
      if (value == nullptr || (is_absent(q, *value) && !has_word(name, *value))) continue;
      const std::string key = scope.prefix + spelling;
      Json found = translated(q, key, *value);
      if (!from.empty() && found != result)
        fail(name, "has two values: " + said(from, result) + ", " + said(key, found),
             "remove one of the two keys");
      if (from.empty()) {
        result = std::move(found);
        from = key;
      }
      break;  // the language model's own part comes first
    }
  }
  const bool required =
      std::find(family_.required.begin(), family_.required.end(), name) != family_.required.end();
  if (!from.empty()) {
    origin_[name] = file_ + from;
  } else if (required) {
    fail_missing(name);
  } else if (const auto fallback = family_.defaults.find(name);
             fallback != family_.defaults.end()) {
    result = json_of(fallback->second.value);
    origin_[name] = fallback->second.origin;
  } else if (!q.fallback.empty()) {
    result = fallback_of(q);
    origin_[name] = "default";
  }
  return result;
}

int64_t Lookup::integer(const Quantity& q, const Json& value, int64_t low, int64_t high) const {
  if (!value.is_number_integer())
    fail(q.name, "is " + shown(value) + ", expected a whole number", "correct the value");
  const bool huge =
      value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  const int64_t number = huge ? high + 1 : value.get<int64_t>();
  if (number < low || number > high)
    fail(q.name,
         "is " + value.dump() + ", expected " + std::to_string(low) + " to " + std::to_string(high),
         "correct the value");
  return number;
}

std::optional<int64_t> Lookup::maybe_count(std::string_view name, int64_t limit) {
  const Quantity& q = quantity(name);
  const Json value = find(q);
  if (value.is_null()) return std::nullopt;
  return integer(q, value, least(q), limit);
}

int64_t Lookup::count(std::string_view name, int64_t limit) {
  const std::optional<int64_t> value = maybe_count(name, limit);
  if (!value) fail_missing(name);
  return *value;
}

bool Lookup::flag(std::string_view name) {
  const Json value = find(quantity(name));
  if (value.is_null()) fail_missing(name);
  if (!value.is_boolean())
    fail(name, "is " + shown(value) + ", expected true or false", "correct the value");
  return value.get<bool>();
}

double Lookup::number(const Quantity& q, const Json& value) const {
  if (!value.is_number())
    fail(q.name, "is " + shown(value) + ", expected a number", "correct the value");
  const double number = value.get<double>();
  if (!std::isfinite(number) || std::abs(number) > 1e30)
    fail(q.name, "is " + shown(value) + ", expected at most 1e30", "correct the value");
  return number;
}

double Lookup::real(std::string_view name) {
  const Quantity& q = quantity(name);
  const Json value = find(q);
  if (value.is_null()) fail_missing(name);
  return number(q, value);
}

std::vector<double> Lookup::real_per_layer(std::string_view name, int64_t layers) {
  const Quantity& q = quantity(name);
  const Json value = find(q);
  if (value.is_null()) return {};
  std::vector<double> numbers(static_cast<size_t>(layers));
  if (value.is_array()) require_length(name, value, layers);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const Json& item = value.is_array() ? value[i] : value;
    if (!item.is_null()) numbers[i] = number(q, item);
    if (numbers[i] < 0)
      fail(name, "is " + item.dump() + ", expected a number from 0", "write 0 or null for none");
  }
  if (value.is_array()) origin_[std::string(name)] += " (one for each layer)";
  return numbers;
}

std::string Lookup::word_or(std::string_view name, const std::string& otherwise) {
  const Json value = find(quantity(name));
  if (value.is_null()) return otherwise;
  if (!value.is_string())
    fail(name, "is " + shown(value) + ", expected a word", "correct the value");
  return value.get<std::string>();
}

std::string Lookup::word(std::string_view name) {
  std::string value = word_or(name, "");
  if (value.empty()) fail_missing(name);
  return value;
}

void Lookup::require_length(std::string_view name, const Json& list, int64_t layers) const {
  const int64_t size = static_cast<int64_t>(list.size());
  if (size != layers && size != layers + extra_layers_)
    fail(name,
         "is a list of " + std::to_string(list.size()) + " entries, but there are " +
             std::to_string(layers) + " layers",
         "a list has one entry for each layer");
}

std::vector<int64_t> Lookup::per_layer(std::string_view name, int64_t layers, int64_t limit) {
  const Quantity& q = quantity(name);
  const Json value = find(q);
  if (value.is_null()) return {};
  if (!value.is_array())
    return std::vector<int64_t>(static_cast<size_t>(layers), integer(q, value, least(q), limit));
  require_length(name, value, layers);
  std::vector<int64_t> numbers;
  for (const Json& item : value) numbers.push_back(item.is_null() ? 0 : integer(q, item, 0, limit));
  origin_[std::string(name)] += " (one for each layer)";
  return numbers;
}

Json Lookup::raw(std::string_view name) { return find(quantity(name)); }

}  // namespace moert::config
