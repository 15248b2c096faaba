// What is asked of a file before it is opened, beyond its being a sound library. An answer is one
// phrase that says why not; empty means yes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "loader/elf_file.hpp"

namespace moert::loader {

// Size of the note's descriptor in revision 1, the smallest there is.
constexpr uint32_t kNoteRevision1 = 112;

// Texts of the note that are not what entry.h asks for (no end, no id, no version).
std::string malformed_note(const Note& note);

// ABI major, oldest host, sanitizer and processor against this host and `isa`.
std::string incompatible_note(const Note& note, uint32_t isa);

// MOERT_ISA_* bits that the processor has and the operating system keeps across context switches.
uint32_t available_isa();

// A file or folder that everybody may write, or that belongs to somebody other than root or this user.
// `path` is canonical; `found` is the name it was found by, whose folder counts too: links lie there.
std::string unsafe_file(const std::filesystem::path& path, const std::filesystem::path& found);

// Is a plugin with this id, or this short name, allowed? An empty list allows all.
bool allowed(const std::vector<std::string>& list, const std::string& id, const std::string& name);

// "fast" for ".../libmoert_fast.so", else empty.
std::string name_of_file(const std::filesystem::path& path);

// 1.2.3, optionally followed by -pre.release and +build.
bool is_version(const std::string& text);
// Letters, digits, '.', '_' and '-'; 1 to 63 of them.
bool is_id(const std::string& text);
// [a-z0-9_]+, at most 63.
bool is_short_name(const std::string& text);

}  // namespace moert::loader
