// What a config.json says about the formats of weights, in the words of those who write such files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/lookup.hpp"
#include "spec/quantization.hpp"

namespace moert::config {

// The section quantization_config (or compression_config) of the first scope that has one; else that of
// hf_quant_config.json beside the config, where ModelOpt wrote it earlier. `expert_dtype` is the family's
// word for the routed experts alone, or empty; it wins over the section. nullopt: nothing is announced;
// else `origin` becomes the section's place, such as "config.json: quantization_config".
// Throws Error(usage) for a value of the wrong type. A method that is not known is no error here: the
// files may hold plain floats.
std::optional<spec::Quantization> read_quantization(const std::vector<Scope>& scopes,
                                                    const std::string& expert_dtype,
                                                    const std::filesystem::path& config,
                                                    std::string* origin);

}  // namespace moert::config
