// Files: read-only mappings, whole small files, and writing that leaves the old file or the new one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

// A file mapped for reading; move-only. The file's size is fixed at opening: a file that shrinks
// under a mapping is the operator's fault and ends in SIGBUS, as with every mapping.
class MappedFile {
 public:
  // Throws Error(input) naming the path: absent, no regular file, unreadable.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }
  // Tells the kernel that [offset, offset + bytes) will not be read again, so that loading a
  // checkpoint does not hold it in memory twice.
  void release(uint64_t offset, uint64_t bytes) const;

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Contents of a text file of at most `limit` bytes. Throws Error(input).
std::string read_text_file(const std::filesystem::path& path, uint64_t limit = 64u << 20);

// The file that writing to `path` replaces: symbolic links are followed, also to a file that is not
// there yet. Throws Error(usage) for what is there and no regular file, and says what it is.
std::filesystem::path output_target(const std::filesystem::path& path);

// Writes to a temporary name in the folder of output_target(); commit() syncs and renames. Missing
// folders are made. Without commit the old file, if any, stays; the temporary file and the folders that
// were made for it are removed.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& target);  // throws Error(usage)
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();
  void write(const void* data, size_t bytes);  // throws Error(device): disk full and the like
  // Instead of write(), once: a file of that many zero bytes (at least 1), to be filled in any order until
  // commit(). Its space is reserved here, so that a full disk is an Error(device) and no signal at some later store.
  std::span<std::byte> map(size_t bytes);
  void commit();

 private:
  [[noreturn]] void fail(const char* action);
  std::string make_folders();
  void remove_made_folders();
  void unmap();
  std::filesystem::path asked_, target_, temporary_;
  std::vector<std::filesystem::path> made_;  // deepest first; empty: was there after all
  int file_ = -1;
  std::span<std::byte> mapped_;
};

void write_text_file(const std::filesystem::path& target, std::string_view text);

}  // namespace moert
