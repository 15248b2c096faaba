// Where this code lives on disk.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace moert {

// Canonical path of the program or library that holds the core; empty if it cannot be told. Does not
// depend on the working directory or argv.
std::filesystem::path running_object();

}  // namespace moert
