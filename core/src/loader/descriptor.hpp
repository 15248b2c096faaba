// From a mapped library to a checked copy of its descriptor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <moert/abi/entry.h>

namespace moert::loader {

// Calls the entry function; what it throws is caught. Fills `out` with a full-size copy. Answers one
// phrase that says which rule of entry.h is broken, or nothing.
std::string read_descriptor(moert_plugin_query_fn query, const moert_note_desc_t& note,
                            moert_plugin_t& out);

// One line, without control characters, at most 512 bytes, from a text of a plugin or the system.
std::string one_line(const char* text);

}  // namespace moert::loader
