// Choices as text, and the folders that the runtime brings along.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/fused_moe.hpp"

namespace moert::runtime {

// The decision tables of all layers and kinds. Consecutive layers with the same tables are one block,
// headed "layers 0-5: routed_experts (moert.routed_experts/1)".
std::string explain_choices(const std::vector<LayerChoice>& choices);

// Where family files are looked for: beside the running program or library,
// <prefix>/share/moert/families. May not exist.
std::filesystem::path installed_families();

}  // namespace moert::runtime
