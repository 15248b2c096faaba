// Reads what decides whether a library may be opened from its bytes, without mapping it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <moert/abi/entry.h>

namespace moert::loader {

// Random access to a file's bytes. `read` fills all `bytes` from `offset` on or returns false; it is
// only asked for ranges inside [0, size).
struct ByteSource {
  uint64_t size = 0;
  std::function<bool(uint64_t offset, void* to, uint64_t bytes)> read;
};

// The note as found. Bytes of `desc` beyond `size` are zero; a larger (newer) note is cut.
struct Note {
  moert_note_desc_t desc{};
  uint32_t size = 0;  // bytes of the descriptor in the file
};

// What the loader wants to know of an ELF shared object of this machine.
struct ElfFile {
  std::optional<Note> note;         // absent: an ordinary library
  std::vector<std::string> needed;  // DT_NEEDED, in order
  std::string run_path;             // DT_RUNPATH, else DT_RPATH; unexpanded
};

// Every number in the file is hostile until checked: the result is what the file says, or
// Error(plugin) whose problem() is one phrase without the path. A file that passes has its segments
// and dynamic tables inside itself, so mapping it does not run off its end.
ElfFile read_elf(const ByteSource& bytes, const std::filesystem::path& path);

// Regular file at `path`, read by pread. Error(plugin): absent, not a regular file, unreadable. Never
// blocks, whatever lies at the path.
ElfFile read_elf(const std::filesystem::path& path);

}  // namespace moert::loader
