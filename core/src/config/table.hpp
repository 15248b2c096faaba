// The keys of a kind of document, as data: one table per kind, from which the check, the JSON schema
// and the tables in docs/yaml.md are made.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config/yaml_node.hpp"

namespace moert::config {

enum class Type {
  map,
  list,
  string,
  scalar,       // a text, a number, true or false; its text is what counts
  path,         // relative to the file; to the working directory where an override gives it
  output_path,  // relative to the working directory
  word,         // one of Key::words
  boolean,
  integer,
  number,
  ranges,  // numbers of layers: 3 or "1-5,7"
};

// One key. A path is words joined by dots; "[]" is an item of a list, "*" any key of a map. A key
// stands after the map or list that holds it.
struct Key {
  std::string path;
  Type type = Type::string;
  bool required = false;
  std::string fallback = {};            // what an absent key means, as YAML; empty: nothing
  std::vector<std::string> words = {};  // of Type::word
  std::string pattern = {};  // extended regular expression that the whole text must match
  // Of a number: its range. Of a list or map: how many items it may have.
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool unique = false;  // of a list: no item twice
  std::string doc = {};
};
using Table = std::vector<Key>;

// A table as a tree, for walking it beside a document.
struct Shape {
  const Key* key = nullptr;            // nullptr: the document itself
  std::map<std::string, Shape> named;  // keys of a map
  std::vector<std::string> order;      // of `named`, as in the table
  std::vector<Shape> any;  // empty or one: items of a list, values of a map with free keys
};
Shape shape_of(const Table& table);  // points into the table

// The tables of the kinds. Made once, never changed.
const Table& run_table();
const Table& model_table();
const Table& family_table();
const Table& experts_table();

// Throws Error(usage) at the first fault: unknown key (with the nearest), missing key, wrong type,
// a value that is not allowed.
void check(const YamlNode& document, const Table& table);
// The same for many documents of one table.
void check(const YamlNode& document, const Shape& shape);

// The value at a path such as "spec.outputs.file"; nullptr where any part of it is absent.
const YamlNode* at(const YamlNode& document, std::string_view path);

// The key that `path` has in the table ("spec.capture[0].to" is "spec.capture[].to"), or nullptr.
const Key* key_of(const Table& table, std::string_view path);

std::string type_name(Type type);

// A JSON schema of one kind, as text, and the rows of its table in docs/yaml.md.
std::string markdown_rows(const Table& table);

// Layers of Type::ranges, rising, each below `limit`. Throws Error(usage).
std::vector<int64_t> layer_ranges(const YamlNode& node, int64_t limit);

// The path of a node of Type::path.
std::filesystem::path resolved_path(const YamlNode& node);

}  // namespace moert::config
