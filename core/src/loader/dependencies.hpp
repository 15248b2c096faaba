// Why a library could not be opened: the libraries it needs that are not there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "loader/elf_file.hpp"

namespace moert::loader {

// "libgone.so.1 is missing, needed by /x/libmoert_fast.so (looked in: /a, /b)" for every library that
// `file`, or one of the libraries it needs, asks for in vain. Empty if all are found.
std::string missing_libraries(const std::filesystem::path& path, const ElfFile& file);

}  // namespace moert::loader
