// A plugin file, opened, and the features that it offers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/device.h>
#include <moert/abi/entry.h>

#include <string>
#include <string_view>
#include <vector>

namespace moert::conformance {

struct Feature {
  const moert_feature_t* record;
  const moert_device_t* device;  // of the plugins that were given; NULL: plain host memory
  std::string kind_word;         // "routed_experts" of "moert.routed_experts/1"
  const moert_plugin_t* plugin;  // whose feature it is

  std::string name() const { return record->name; }
  // Value of a capability, or empty.
  std::string cap(std::string_view key) const;
  template <class Table>
  const Table& table() const {
    return *static_cast<const Table*>(record->table);
  }
};

// Opens the files and lists their features, in order. Throws std::runtime_error with a reason.
std::vector<Feature> open_plugins(const std::vector<std::string>& paths);

}  // namespace moert::conformance
