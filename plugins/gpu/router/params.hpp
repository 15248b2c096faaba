// moert_routing.params: which of them a method uses, and their numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rule.hpp"

namespace moert::gpu {

// Reads them into `rule`, whose method is known. What the method does not use is refused: a number that is given and
// then ignored would be a wrong answer that looks right. Empty, or why not.
std::string read_params(const moert_routing_t& routing, Rule* rule);

// A word of the record in quotes.
std::string quoted(const char* text);
// Position of `word` in a list like kMethods; -1 if it is not there.
int position(const char* word, const char* list);

}  // namespace moert::gpu
