// Which layers of a model have experts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/lookup.hpp"

namespace moert::config {

enum class LayerKind { dense, experts, hash };

// The number of layers; where no key gives it, that of the entries of layer_words.
int64_t layer_count(Lookup& lookup);

// Every rule takes layers away; what all of them leave has experts.
std::vector<LayerKind> layer_pattern(Lookup& lookup, int64_t layers,
                                     const std::vector<std::string>& rules);

// The quantities that these rules read.
std::vector<std::string> layer_quantities(const std::vector<std::string>& rules);

// The rules that a family may name.
std::vector<std::string> layer_rule_names();

}  // namespace moert::config
