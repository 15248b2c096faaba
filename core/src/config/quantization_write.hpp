// Writes into a config.json what formats the weights have, in the words of those who read such files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "spec/quantization.hpp"

namespace moert::config {

// Methods that can be written: "fp8" (one group, of blocks), "mxfp4", "compressed-tensors" (any number of
// groups); empty: nothing is quantised.
//
// The text of the file with that quantization in the place of its own, wherever it stood; everything else is kept.
// What is read from it again is what was written. Throws Error(usage) for a format that the method cannot say,
// Error(input) for a damaged file.
std::string write_quantization(const std::filesystem::path& config,
                               const spec::Quantization& quantization);

// The text of the file with its own quantization, from which these modules are now excluded.
std::string write_exclusions(const std::filesystem::path& config,
                             const std::vector<std::string>& modules);

}  // namespace moert::config
