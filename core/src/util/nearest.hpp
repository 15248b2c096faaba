// The nearest of some names to a misspelt one, for "did you mean".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moert {

// Fewest letters to add, drop, replace or swap with their neighbour (each place edited once).
size_t edit_distance(std::string_view a, std::string_view b);

// Up to `most` of `names`, nearest first, none farther than half the length of `name` (at least 2).
// Order is total: distance, then bytewise.
std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& names,
                                       size_t most = 1);

// "did you mean 'mxfp4'?" or, where nothing is near, "known are: a, b, c" (at most 12 of them).
std::string suggestion(std::string_view name, const std::vector<std::string>& names);

// "a, b, c"
std::string joined(const std::vector<std::string>& parts, std::string_view separator = ", ");

}  // namespace moert
