// Numbers of layers written as "1-5,7".
// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include "config/table.hpp"

namespace moert::config {
namespace {

[[noreturn]] void fail_range(const YamlNode& node, int64_t limit) {
  fail_at(
      node.place(),
      "'" + node.text + "' names a layer that is not below num_layers, " + std::to_string(limit),
      "layers are counted from 0");
}

int64_t number_at(const YamlNode& node, std::string_view& rest, int64_t limit) {
  int64_t value = 0;
  const auto result = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (result.ec != std::errc{} || value >= limit) fail_range(node, limit);
  rest.remove_prefix(static_cast<size_t>(result.ptr - rest.data()));
  return value;
}

}  // namespace

std::vector<int64_t> layer_ranges(const YamlNode& node, int64_t limit) {
  if (node.type == YamlNode::Type::integer) {
    if (node.integer >= limit) fail_range(node, limit);
    return {node.integer};
  }
  std::vector<int64_t> layers;
  std::string_view rest = node.text;  // its form was checked against the table
  while (!rest.empty()) {
    const int64_t first = number_at(node, rest, limit);
    int64_t last = first;
    if (!rest.empty() && rest.front() == '-') {
      rest.remove_prefix(1);
      last = number_at(node, rest, limit);
    }
    if (last < first || (!layers.empty() && first <= layers.back()))
      fail_at(node.place(), "the layers '" + node.text + "' do not rise",
              "write them in rising order, such as 1-5,7");
    for (int64_t layer = first; layer <= last; ++layer) layers.push_back(layer);
    if (!rest.empty()) rest.remove_prefix(1);
  }
  return layers;
}

}  // namespace moert::config
