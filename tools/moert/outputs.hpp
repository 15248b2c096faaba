// Places for output, looked at before the work begins.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "spec/run.hpp"

namespace moert::tool {

// Throws Error(usage) naming the key: an output that would replace what the run reads, two outputs in
// one file, a place that cannot be written. Leaves no trace.
void check_outputs(const spec::Run& run, const std::filesystem::path& run_file);

// Throws Error(usage) if writing to `output`, which `key` names, would replace a file of the checkpoint.
void keep_checkpoint(const std::filesystem::path& checkpoint, const std::filesystem::path& output,
                     const std::string& key);

// Throws Error(usage) if `output` is the file that is read.
void keep_input(const std::filesystem::path& input, const std::filesystem::path& output);

}  // namespace moert::tool
