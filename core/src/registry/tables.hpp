// The tables of functions behind the kinds: their sizes, their entries, and taking one in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace moert::registry {

// One function of a table. `fill` puts a stub in its place that answers what the kind's header says
// of an absent entry.
struct Entry {
  const char* name;
  bool required;
  bool (*present)(const void* table);
  void (*fill)(void* table);
};

struct Kind {
  const char* id;      // "moert.router/1"
  uint32_t revision1;  // smallest struct_size
  std::span<const Entry> entries;
  // Full-size, zeroed but for the first `bytes`, which come from `table`.
  std::shared_ptr<void> (*copy)(const void* table, uint32_t bytes);
  // A rule of the kind's header beyond entries: one phrase if it is broken.
  std::string (*problem)(const void* table);
};

// nullptr: this host does not know the kind.
const Kind* find_kind(const std::string& id);
std::vector<std::string> kind_ids();

// A full-size copy of a plugin's table in which every entry can be called. Where a rule is broken the
// pointer is empty and `problem` says which.
std::shared_ptr<const void> take_table(const Kind& kind, const void* table, std::string& problem);

}  // namespace moert::registry
