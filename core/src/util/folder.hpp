// Folders that appear whole or not at all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace moert {

// Everything is written in a folder beside the target, whose name begins with '.'; commit() renames it. Without
// commit, it and the folders that were made for it are removed, and the target stays as it was.
class AtomicFolder {
 public:
  // Throws Error(usage) if the target is there and no empty folder, or cannot be made.
  explicit AtomicFolder(const std::filesystem::path& target);
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;
  ~AtomicFolder();

  const std::filesystem::path& path() const { return temporary_; }
  // Throws Error(device) if the disk is known to have less room than that.
  void require_room(uint64_t bytes) const;
  void commit();  // throws Error(device)

 private:
  std::filesystem::path target_, temporary_;
  std::vector<std::filesystem::path> made_;  // deepest first
};

}  // namespace moert
