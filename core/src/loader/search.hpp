// The folder of plugins that belongs to a program or library.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

namespace moert::loader {

// `SearchEntry::origin` of these folders; what lies there is not third-party.
constexpr const char* kInstalled = "installed";

// For /p/bin/moert: /p/<libdir>/moert/plugins-1 and, where that differs, /p/lib/moert/plugins-1. For
// /p/lib/libmoert.so: /p/lib/moert/plugins-1. `object` is canonical; empty gives nothing.
std::vector<std::filesystem::path> installed_folders(const std::filesystem::path& object);

}  // namespace moert::loader
