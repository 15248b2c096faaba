// The index of a sharded checkpoint, model.safetensors.index.json; treated as hostile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moert::weights {

struct ShardIndex {
  std::vector<std::string> files;                         // plain names, rising
  std::vector<std::pair<std::string, uint32_t>> tensors;  // name, index into files; by name
};

// Throws Error(input): no JSON, a name that stands twice, a file that is no plain name.
ShardIndex parse_index(std::string_view text, const std::string& place);

}  // namespace moert::weights
