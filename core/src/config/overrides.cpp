// Puts overrides into a document's tree.
// SPDX-License-Identifier: Apache-2.0
#include "config/overrides.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

namespace moert::config {
namespace {

struct Step {
  std::string key;              // of a map
  std::optional<size_t> index;  // of a list
};

[[noreturn]] void fail_key(const std::string& place, const std::string& key) {
  fail_at(place, "'" + key + "' is no path of keys",
          "write it as in: capture[0].path=out/routes.safetensors");
}

std::optional<size_t> index_at(std::string_view key, size_t& at) {
  size_t index = 0;
  const auto result = std::from_chars(key.data() + at + 1, key.data() + key.size(), index);
  const auto end = static_cast<size_t>(result.ptr - key.data());
  if (result.ec != std::errc{} || end >= key.size() || key[end] != ']') return std::nullopt;
  at = end + 1;
  return index;
}

std::vector<Step> steps_of(const std::string& key, const std::string& place) {
  std::vector<Step> steps;
  size_t at = 0;
  while (at < key.size()) {
    if (key[at] == '[') {
      const std::optional<size_t> index = index_at(key, at);
      if (!index || steps.empty()) fail_key(place, key);
      steps.push_back({"", index});
    } else {
      if (!steps.empty() && key[at++] != '.') fail_key(place, key);
      const size_t end = std::min(key.find_first_of(".[", at), key.size());
      if (end == at) fail_key(place, key);
      steps.push_back({key.substr(at, end - at), {}});
      at = end;
    }
  }
  if (steps.empty() || steps.size() > static_cast<size_t>(kMaxYamlDepth)) fail_key(place, key);
  return steps;
}

// The child that `step` names, made where it is absent: an entry of a map, or one item more of a list.
YamlNode& descend(YamlNode& node, const Step& step, const YamlNode& value) {
  const bool is_new = node.type == YamlNode::Type::null;
  const YamlNode::Type wanted = step.index ? YamlNode::Type::list : YamlNode::Type::map;
  if (is_new) {
    node.type = wanted;
    node.source = value.source;
  }
  if (node.type != wanted)
    fail_at(value.place(),
            "the key path goes through " + node.said() + ", which has no " +
                (step.index ? "items" : "keys"),
            "docs/yaml.md lists the keys");
  const size_t index = step.index.value_or(node.items.size());
  if (!step.index)
    for (YamlNode& item : node.items)
      if (item.key == step.key) return item;
  if (index > node.items.size())
    fail_at(value.place(),
            "the list has " + std::to_string(node.items.size()) + " items, there is no item " +
                std::to_string(index),
            "items are counted from 0; the next free one is " + std::to_string(node.items.size()));
  if (index == node.items.size()) {
    node.items.emplace_back();
    node.items.back().key = step.key;
    node.items.back().source = value.source;
  }
  return node.items[index];
}

void remove(YamlNode& node, const std::vector<Step>& steps, size_t depth) {
  for (size_t i = 0; i < node.items.size(); ++i) {
    const Step& step = steps[depth];
    if (step.index ? i != *step.index : node.items[i].key != step.key) continue;
    if (depth + 1 < steps.size()) return remove(node.items[i], steps, depth + 1);
    node.items.erase(node.items.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
}

}  // namespace

std::string full_key(const std::string& key) {
  const std::string head = key.substr(0, key.find_first_of(".["));
  for (const char* known : {"apiVersion", "kind", "metadata", "spec"})
    if (head == known) return key;
  return "spec." + key;
}

void apply(YamlNode& document, const Override& override_) {
  const std::string key = full_key(override_.key);
  auto source = std::make_shared<Source>();
  source->name = override_.source + " (" + override_.key + "=" + override_.value + ")";
  source->origin = override_.source;
  source->is_file = false;
  source->base = std::filesystem::current_path();
  const std::vector<Step> steps = steps_of(key, source->name);
  YamlNode value = override_.value.empty() ? YamlNode{} : parse_yaml(override_.value, source);
  value.source = source;
  if (value.block && !value.items.empty())
    fail_at(source->name, "the value is " + value.said() + " in block style",
            "write it in one line: {key: value} or [a, b]");
  if (value.type == YamlNode::Type::null) return remove(document, steps, 0);
  YamlNode* node = &document;
  for (const Step& step : steps) node = &descend(*node, step, value);
  value.key = node->key;
  value.key_line = node->key_line;
  value.key_column = node->key_column;
  *node = std::move(value);
}

}  // namespace moert::config
