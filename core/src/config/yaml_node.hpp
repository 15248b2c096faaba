// A YAML document as a tree of typed nodes that know where they come from. yaml-cpp stays in the .cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <moert/error.hpp>

namespace moert::config {

// The text that nodes come from: a file, or the value of an override.
struct Source {
  std::string name;            // file as the user named it, or "--set spec.device"
  bool is_file = true;         // places are then NAME:line:column
  std::filesystem::path base;  // folder that relative paths start from
  std::string origin = {};     // of an override: who gave it, "--set"
};

// One value. Scalars follow the core schema of YAML 1.2, so "yes" and "on" are text.
struct YamlNode {
  enum class Type { null, boolean, integer, number, string, list, map };

  Type type = Type::null;
  std::string text;  // a scalar as it was written
  bool boolean = false;
  int64_t integer = 0;
  double number = 0;            // of integers too
  std::vector<YamlNode> items;  // of a list, or of a map: then each has a key
  std::string key;              // unique in its map
  std::shared_ptr<const Source> source;
  int line = 0, column = 0;  // of the value, from 1
  int key_line = 0, key_column = 0;
  bool block = false;  // a list or map in block style

  const YamlNode* find(std::string_view name) const;  // entry of a map; nullptr: absent, or no map
  std::string place() const;                          // "run.yaml:3:7", or the source's name
  std::string key_place() const;
  std::string origin() const;  // for provenance: the place, or who gave the override
  std::string said() const;    // for messages: "the text 'yes'", "a list"
};

// Limits on what comes from outside. A description of a model of 10,000 layers fits easily.
inline constexpr uint64_t kMaxYamlBytes = 1u << 20;
inline constexpr int kMaxYamlDepth = 32;
inline constexpr size_t kMaxYamlEntries = 10'000;  // of one list or map
inline constexpr size_t kMaxScalarBytes = 4096;

// The one document in `text`. Refused: anchors, aliases, tags, duplicate keys, keys that are no
// scalars, several documents, numbers that do not fit or have leading zeros, NaN and infinity, text
// that is no UTF-8. Throws Error(usage) with the place.
YamlNode parse_yaml(const std::string& text, const std::shared_ptr<const Source>& source);
YamlNode read_yaml_file(const std::filesystem::path& file);

// Sets type and value of a plain (unquoted) scalar from its text. Throws Error(usage).
void resolve_plain(YamlNode& node);

[[noreturn]] void fail_at(const std::string& place, std::string problem, std::string remedy);

}  // namespace moert::config
