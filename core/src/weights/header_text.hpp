// The header of a safetensors file as text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "weights/safetensors.hpp"

namespace moert::weights {

// A tensor of that name, without a place yet. Throws Error(usage): a dtype that the format does not have, a
// shape without a whole number of bytes, a reserved name.
TensorInfo new_tensor(std::string name, uint32_t dtype, std::vector<int64_t> shape);

// What stands in the file before the data. Sorts the tensors, widest types first, so that each begins at a
// multiple of its element's size, and gives each its offset in the file. Throws Error(usage) for two of one
// name, text that is no UTF-8, a header above the format's limit.
std::string lay_out(const std::vector<TensorInfo*>& tensors,
                    const std::map<std::string, std::string>& metadata,
                    const std::filesystem::path& path);

}  // namespace moert::weights
