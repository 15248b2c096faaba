// Walks a document beside its table.
// SPDX-License-Identifier: Apache-2.0
#include "config/table.hpp"

#include <regex.h>

#include <algorithm>
#include <new>
#include <set>
#include <sstream>

#include "util/nearest.hpp"

namespace moert::config {
namespace {

// "spec.capture[].to" -> "spec", "capture", "[]", "to".
std::vector<std::string> steps_of(std::string_view path) {
  std::vector<std::string> steps;
  std::string step;
  for (const char c : path) {
    if (c == '.' || c == '[') {
      if (!step.empty()) steps.push_back(step);
      step.clear();
    }
    if (c != '.') step += c;
  }
  if (!step.empty()) steps.push_back(step);
  return steps;
}

bool has_type(const YamlNode& node, Type type) {
  switch (type) {
    case Type::map: return node.type == YamlNode::Type::map;
    case Type::list: return node.type == YamlNode::Type::list;
    case Type::boolean: return node.type == YamlNode::Type::boolean;
    case Type::integer: return node.type == YamlNode::Type::integer;
    case Type::number:
      return node.type == YamlNode::Type::integer || node.type == YamlNode::Type::number;
    case Type::ranges:
      return node.type == YamlNode::Type::integer || node.type == YamlNode::Type::string;
    case Type::scalar:
      return node.type != YamlNode::Type::null && node.type != YamlNode::Type::list &&
             node.type != YamlNode::Type::map;
    default: return node.type == YamlNode::Type::string;
  }
}

// An error's last line for a value that a key does not take.
std::string remedy_of(const Key& key) {
  return key.doc.empty() ? "docs/yaml.md says what '" + key.path + "' takes" : key.doc;
}

std::string bound_text(double bound) {
  std::ostringstream text;
  text.precision(17);
  text << bound;
  return text.str();
}

std::string range_text(const Key& key) {
  const bool low = key.min > -std::numeric_limits<double>::infinity();
  const bool high = key.max < std::numeric_limits<double>::infinity();
  if (low && high && key.min == key.max) return "exactly " + bound_text(key.min);
  if (low && high) return bound_text(key.min) + " to " + bound_text(key.max);
  if (low) return "at least " + bound_text(key.min);
  return high ? "at most " + bound_text(key.max) : "";
}

[[noreturn]] void fail_type(const YamlNode& node, const Key& key, const std::string& path) {
  std::string remedy = "write " + type_name(key.type);
  if (key.type == Type::boolean && node.type == YamlNode::Type::string)
    remedy = "write true or false: words such as yes and on are text";
  else if (key.type == Type::word)
    remedy = "write one of: " + joined(key.words);
  else if (node.type == YamlNode::Type::null)
    remedy += ", or leave the key out";
  else if (key.type == Type::string || key.type == Type::path || key.type == Type::output_path)
    remedy += "; put it in quotes if it is meant as text";
  fail_at(node.place(), "'" + path + "' is " + node.said() + ", expected " + type_name(key.type),
          remedy);
}

// The C library's matcher: its time does not explode and its depth does not grow with the text.
bool fits(const std::string& text, const std::string& pattern) {
  regex_t compiled;
  const int code = ::regcomp(&compiled, ("^(" + pattern + ")$").c_str(), REG_EXTENDED | REG_NOSUB);
  if (code == REG_ESPACE) throw std::bad_alloc();
  if (code != 0) return false;
  const bool found = ::regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
  ::regfree(&compiled);
  return found;
}

void check_text_value(const YamlNode& node, const Key& key, const std::string& path) {
  const bool word_known =
      std::find(key.words.begin(), key.words.end(), node.text) != key.words.end();
  if (key.type == Type::word && !word_known)
    fail_at(node.place(),
            "'" + path + "' is '" + node.text + "', which is none of: " + joined(key.words),
            suggestion(node.text, key.words));
  if (node.text.empty())
    fail_at(node.place(), "'" + path + "' is an empty text", "write a value, or leave the key out");
  if (!key.pattern.empty() && !fits(node.text, key.pattern))
    fail_at(node.place(),
            "'" + path + "' is '" + node.text + "', which has not the form " + key.pattern,
            remedy_of(key));
}

void check_count(const YamlNode& node, const Key& key, const std::string& path,
                 const Shape& shape) {
  const auto count = static_cast<double>(node.items.size());
  if (count >= key.min && count <= key.max) return;
  std::string remedy = remedy_of(key);
  if (node.type == YamlNode::Type::map) remedy = "keys are: " + joined(shape.order);
  const bool surplus = count > key.max;  // points at the last entry: it may come from an override
  fail_at(surplus ? node.items.back().key_place() : node.place(),
          "'" + path + "' has " + std::to_string(node.items.size()) + " entries, expected " +
              range_text(key),
          remedy);
}

void check_unique(const YamlNode& node, const std::string& path) {
  std::set<std::string_view> seen;
  for (const YamlNode& item : node.items)
    if (!seen.insert(item.text).second)
      fail_at(item.place(), "'" + path + "' holds '" + item.text + "' twice", "remove one of them");
}

std::string child_path(const std::string& path, const std::string& key) {
  return path.empty() ? key : path + "." + key;
}

void check_node(const YamlNode& node, const Shape& shape, const std::string& path);

void check_map(const YamlNode& node, const Shape& shape, const std::string& path) {
  for (const YamlNode& item : node.items) {
    const auto known = shape.named.find(item.key);
    if (known != shape.named.end()) {
      check_node(item, known->second, child_path(path, item.key));
    } else if (!shape.any.empty()) {
      check_node(item, shape.any.front(), child_path(path, item.key));
    } else {
      const std::string where = path.empty() ? "a document" : "'" + path + "'";
      fail_at(item.key_place(), "unknown key '" + item.key + "' in " + where,
              suggestion(item.key, shape.order));
    }
  }
  for (const std::string& name : shape.order) {
    const Shape& child = shape.named.at(name);
    if (child.key->required && node.find(name) == nullptr)
      fail_at(node.place(), "the key '" + child_path(path, name) + "' is missing",
              child.key->doc.empty() ? "add it" : "add it: " + child.key->doc);
  }
}

void check_node(const YamlNode& node, const Shape& shape, const std::string& path) {
  const Key& key = *shape.key;
  if (!has_type(node, key.type)) fail_type(node, key, path);
  switch (key.type) {
    case Type::map:
      check_map(node, shape, path);
      check_count(node, key, path, shape);
      break;
    case Type::list:
      for (size_t i = 0; i < node.items.size(); ++i)
        check_node(node.items[i], shape.any.front(), path + "[" + std::to_string(i) + "]");
      check_count(node, key, path, shape);
      if (key.unique) check_unique(node, path);
      break;
    case Type::integer:
    case Type::number:
      if (node.number < key.min || node.number > key.max)
        fail_at(node.place(), "'" + path + "' is " + node.text + ", expected " + range_text(key),
                remedy_of(key));
      break;
    case Type::boolean: break;
    case Type::ranges:
      if (node.type == YamlNode::Type::string) check_text_value(node, key, path);
      if (node.type == YamlNode::Type::integer && node.integer < 0)
        fail_at(node.place(), "'" + path + "' is " + node.text, "layers are counted from 0");
      break;
    default: check_text_value(node, key, path);
  }
}

}  // namespace

Shape shape_of(const Table& table) {
  Shape root;
  for (const Key& key : table) {
    Shape* shape = &root;
    for (const std::string& step : steps_of(key.path)) {
      if (step == "[]" || step == "*") {
        if (shape->any.empty()) shape->any.emplace_back();
        shape = &shape->any.front();
      } else {
        if (!shape->named.contains(step)) shape->order.push_back(step);
        shape = &shape->named[step];
      }
    }
    shape->key = &key;
  }
  return root;
}

void check(const YamlNode& document, const Table& table) { check(document, shape_of(table)); }

void check(const YamlNode& document, const Shape& shape) {
  if (document.type != YamlNode::Type::map)
    fail_at(document.place(), "the document is " + document.said() + ", expected a map",
            "begin with: apiVersion: moert/v1");
  check_map(document, shape, "");
}

const YamlNode* at(const YamlNode& document, std::string_view path) {
  const YamlNode* node = &document;
  for (const std::string& step : steps_of(path)) {
    if (node == nullptr) return nullptr;
    node = node->find(step);
  }
  return node;
}

const Key* key_of(const Table& table, std::string_view path) {
  std::string general;
  for (const std::string& step : steps_of(path)) {
    if (step.front() == '[')
      general += "[]";
    else
      general += (general.empty() ? "" : ".") + step;
  }
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Key& key) { return key.path == general; });
  return found == table.end() ? nullptr : &*found;
}

std::string type_name(Type type) {
  switch (type) {
    case Type::map: return "a map";
    case Type::list: return "a list";
    case Type::string: return "a text";
    case Type::scalar: return "a text, a number, true or false";
    case Type::path:
    case Type::output_path: return "a path";
    case Type::word: return "a word";
    case Type::boolean: return "true or false";
    case Type::integer: return "an integer";
    case Type::number: return "a number";
    case Type::ranges: return "layers, such as 3 or 1-5,7";
  }
  return "";
}

std::filesystem::path resolved_path(const YamlNode& node) {
  const std::filesystem::path path(node.text);
  return (path.is_absolute() ? path : node.source->base / path).lexically_normal();
}

}  // namespace moert::config
