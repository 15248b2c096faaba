// The quantities that make up a model, and how each may be written in a config.json.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

namespace moert::config {

enum class QuantityKind {
  count,        // a whole number from 1; null, 0 and absent are one
  size,         // a whole number from 0; null and absent are one
  last_layer,   // a whole number from 0, or -1
  flag,         // true or false, or a word with a meaning in `words`
  real,         // a finite number
  word,         // a name, translated by `words`
  layer_list,   // a list of layers, or a text of numbers between commas
  layer_words,  // a word for each layer, or a text with a letter for each; translated by `words`
  pattern,      // a period, or a list of 0 and 1 for each layer
};

struct Quantity {
  std::string_view name;
  QuantityKind kind;
  bool per_layer;  // may be a list with an entry for each layer
  std::string_view doc;
  // What it is, as YAML, where neither the config nor the family says anything; empty: unknown.
  std::string_view fallback = {};
};

const std::vector<Quantity>& quantities();
const Quantity& quantity(std::string_view name);  // must exist

}  // namespace moert::config
