// The JSON schema and the tables of docs/yaml.md, made from the tables of keys.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <nlohmann/json.hpp>

#include "config/config.hpp"
#include "config/table.hpp"

namespace moert::config {
namespace {

using Json = nlohmann::ordered_json;

// Whole numbers are printed without a fraction.
Json number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<int64_t>(value);
  return value;
}

void add_bounds(Json& schema, const Key& key, const char* low, const char* high) {
  if (std::isfinite(key.min)) schema[low] = number(key.min);
  if (std::isfinite(key.max)) schema[high] = number(key.max);
}

Json schema_of(const Shape& shape);

void add_map(Json& schema, const Shape& shape) {
  schema["type"] = "object";
  Json required = Json::array();
  Json properties = Json::object();
  for (const std::string& name : shape.order) {
    const Shape& child = shape.named.at(name);
    properties[name] = schema_of(child);
    if (child.key->required) required.push_back(name);
  }
  if (!properties.empty()) schema["properties"] = properties;
  if (!required.empty()) schema["required"] = required;
  schema["additionalProperties"] = shape.any.empty() ? Json(false) : schema_of(shape.any.front());
}

void add_text(Json& schema, const Key& key) {
  schema["type"] = "string";
  if (key.type == Type::word) {
    schema["enum"] = key.words;
    return;
  }
  if (key.pattern.empty())
    schema["minLength"] = 1;
  else
    schema["pattern"] = "^(" + key.pattern + ")$";
}

Json schema_of(const Shape& shape) {
  Json schema;
  const Key& key = *shape.key;
  if (!key.doc.empty()) schema["description"] = key.doc;
  switch (key.type) {
    case Type::map:
      add_map(schema, shape);
      add_bounds(schema, key, "minProperties", "maxProperties");
      break;
    case Type::list:
      schema["type"] = "array";
      schema["items"] = schema_of(shape.any.front());
      add_bounds(schema, key, "minItems", "maxItems");
      if (key.unique) schema["uniqueItems"] = true;
      break;
    case Type::boolean: schema["type"] = "boolean"; break;
    case Type::integer:
    case Type::number:
      schema["type"] = key.type == Type::integer ? "integer" : "number";
      add_bounds(schema, key, "minimum", "maximum");
      break;
    case Type::ranges:
      schema["type"] = Json::array({"integer", "string"});
      schema["minimum"] = 0;
      schema["pattern"] = "^(" + key.pattern + ")$";
      break;
    case Type::scalar:
      schema["type"] = Json::array({"string", "number", "boolean"});
      schema["minLength"] = 1;
      break;
    default: add_text(schema, key);
  }
  return schema;
}

Json document_schema(const Table& table) {
  Json schema;
  add_map(schema, shape_of(table));
  return schema;
}

// A cell of a Markdown table.
std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.insert(at, "\\");
  return text;
}

std::string code(const std::string& text) { return text.empty() ? "" : "`" + cell(text) + "`"; }

std::string type_cell(const Key& key) {
  std::string text = type_name(key.type);
  for (const char* article : {"a ", "an "})
    if (text.starts_with(article)) text.erase(0, std::string_view(article).size());
  if (key.type == Type::output_path) text = "output path";
  if (key.type == Type::word) {
    text.clear();
    for (const std::string& word : key.words) text += (text.empty() ? "" : ", ") + code(word);
  }
  return text;
}

}  // namespace

std::string json_schema() {
  Json schema;
  schema["$schema"] = "http://json-schema.org/draft-07/schema#";
  schema["title"] = "MoERT descriptions, moert/v1";
  schema["type"] = "object";
  schema["oneOf"] = Json::array();
  for (const char* kind : {"Run", "Model", "Family", "Experts"})
    schema["oneOf"].push_back({{"$ref", std::string("#/definitions/") + kind}});
  schema["definitions"]["Run"] = document_schema(run_table());
  schema["definitions"]["Model"] = document_schema(model_table());
  schema["definitions"]["Family"] = document_schema(family_table());
  schema["definitions"]["Experts"] = document_schema(experts_table());
  return schema.dump(2) + "\n";
}

std::string markdown_rows(const Table& table) {
  std::string text = "| key | type | default | meaning |\n|---|---|---|---|\n";
  for (const Key& key : table) {
    if (key.doc.empty()) continue;
    const std::string fallback = key.required ? "required" : code(key.fallback);
    text += "| " + code(key.path) + " | " + type_cell(key) + " | " + fallback + " | " +
            cell(key.doc) + " |\n";
  }
  return text;
}

}  // namespace moert::config
