// A validator for the part of JSON Schema that the shipped schema uses. A keyword that it does not
// know is an error, so that no rule of the schema is passed over in silence.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <regex.h>

#include <set>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

namespace moert::config::test {

using SchemaJson = nlohmann::json;

class SchemaValidator {
 public:
  explicit SchemaValidator(SchemaJson schema) : root_(std::move(schema)) {}

  // What is wrong with `value`, or an empty text.
  std::string fault(const SchemaJson& value) const { return fault(root_, value, "$"); }
  // The same for one definition, whose messages are clearer than those of oneOf.
  std::string fault_of(const std::string& definition, const SchemaJson& value) const {
    return fault(root_.at("definitions").at(definition), value, "$");
  }

 private:
  static bool has_type(const SchemaJson& value, const std::string& type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    throw std::runtime_error("the schema has the type " + type);
  }
  static bool has_one_type(const SchemaJson& value, const SchemaJson& types) {
    if (types.is_string()) return has_type(value, types);
    for (const SchemaJson& type : types)
      if (has_type(value, type)) return true;
    return false;
  }
  static bool fits(const std::string& pattern, const std::string& text) {
    regex_t compiled;
    if (::regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB) != 0)
      throw std::runtime_error("bad pattern " + pattern);
    const bool found = ::regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
    ::regfree(&compiled);
    return found;
  }
  static std::string bound_fault(const std::string& word, const SchemaJson& bound,
                                 const SchemaJson& value) {
    const auto size =
        static_cast<double>(value.is_string() ? value.get<std::string>().size() : value.size());
    const double limit = bound.get<double>();
    const bool fails = (word == "minimum" && value.is_number() && value.get<double>() < limit) ||
                       (word == "maximum" && value.is_number() && value.get<double>() > limit) ||
                       (word == "minLength" && value.is_string() && size < limit) ||
                       (word == "minItems" && value.is_array() && size < limit) ||
                       (word == "maxItems" && value.is_array() && size > limit) ||
                       (word == "minProperties" && value.is_object() && size < limit) ||
                       (word == "maxProperties" && value.is_object() && size > limit);
    return fails ? word + " " + bound.dump() : "";
  }
  static std::string unique_fault(const SchemaJson& value) {
    if (!value.is_array()) return "";
    const std::set<SchemaJson> items(value.begin(), value.end());
    return items.size() == value.size() ? "" : "items are not unique";
  }

  std::string one_of_fault(const SchemaJson& choices, const SchemaJson& value,
                           const std::string& at) const {
    int fitting = 0;
    for (const SchemaJson& choice : choices) fitting += fault(choice, value, at).empty() ? 1 : 0;
    return fitting == 1 ? "" : std::to_string(fitting) + " of oneOf fit";
  }
  std::string object_fault(const SchemaJson& schema, const SchemaJson& value,
                           const std::string& at) const {
    if (!value.is_object()) return "";
    for (const SchemaJson& name : schema.value("required", SchemaJson::array()))
      if (!value.contains(name.get<std::string>())) return at + ": " + name.dump() + " is missing";
    const SchemaJson properties = schema.value("properties", SchemaJson::object());
    for (const auto& [key, item] : value.items()) {
      const std::string inner = at + "." + key;
      const SchemaJson& rest = schema.at("additionalProperties");
      const bool named = properties.contains(key);
      if (!named && rest.is_boolean() && !rest.get<bool>()) return inner + ": unknown key";
      const std::string found = fault(named ? properties.at(key) : rest, item, inner);
      if (!found.empty()) return found;
    }
    return "";
  }
  std::string items_fault(const SchemaJson& schema, const SchemaJson& value,
                          const std::string& at) const {
    if (!value.is_array()) return "";
    for (size_t i = 0; i < value.size(); ++i) {
      const std::string found = fault(schema, value[i], at + "[" + std::to_string(i) + "]");
      if (!found.empty()) return found;
    }
    return "";
  }
  std::string keyword_fault(const std::string& word, const SchemaJson& rule,
                            const SchemaJson& value, const std::string& at) const {
    static const std::set<std::string> kBounds = {"minimum",      "maximum",  "minLength",
                                                  "minItems",     "maxItems", "minProperties",
                                                  "maxProperties"};
    static const std::set<std::string> kElsewhere = {
        "$schema",    "title",    "description",         "definitions",
        "properties", "required", "additionalProperties"};
    if (word == "type")
      return has_one_type(value, rule) ? "" : "is " + value.dump() + ", not " + rule.dump();
    if (word == "enum")
      return std::find(rule.begin(), rule.end(), value) != rule.end()
                 ? ""
                 : value.dump() + " is not in enum";
    if (word == "pattern")
      return !value.is_string() || fits(rule, value)
                 ? ""
                 : value.dump() + " does not fit " + rule.dump();
    if (word == "uniqueItems") return rule.get<bool>() ? unique_fault(value) : "";
    if (word == "oneOf") return one_of_fault(rule, value, at);
    if (word == "items") return items_fault(rule, value, at);
    if (kBounds.contains(word)) return bound_fault(word, rule, value);
    if (kElsewhere.contains(word)) return "";
    throw std::runtime_error("the schema has the keyword " + word +
                             ", which this validator does not know");
  }
  std::string fault(const SchemaJson& schema, const SchemaJson& value,
                    const std::string& at) const {
    if (schema.contains("$ref")) {
      const std::string prefix = "#/definitions/", ref = schema.at("$ref");
      if (!ref.starts_with(prefix) || schema.size() != 1)
        throw std::runtime_error("the schema has the reference " + ref);
      return fault(root_.at("definitions").at(ref.substr(prefix.size())), value, at);
    }
    for (const auto& [word, rule] : schema.items()) {
      const std::string found = keyword_fault(word, rule, value, at);
      if (!found.empty()) return found.starts_with("$") ? found : at + ": " + found;
    }
    return schema.contains("additionalProperties") ? object_fault(schema, value, at) : "";
  }

  SchemaJson root_;
};

}  // namespace moert::config::test
