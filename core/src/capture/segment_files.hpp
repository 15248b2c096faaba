// The files of shared segments: their names, opening one, finding one by its name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace moert::capture {

// An open segment file.
class SegmentFile {
 public:
  enum class Use { look, attach };
  // Follows no symbolic link. Throws Error(usage) if it is not there or this user may not, Error(input) for
  // what is no file.
  SegmentFile(std::filesystem::path path, Use use);
  SegmentFile(const SegmentFile&) = delete;
  SegmentFile& operator=(const SegmentFile&) = delete;
  ~SegmentFile();

  int fd() const { return fd_; }
  uint64_t bytes() const;
  void expect_owner() const;               // throws Error(input): not the user of its name
  bool still_named() const;                // its path still stands for this file
  void expect_size(uint64_t bytes) const;  // throws Error(input)

 private:
  std::filesystem::path path_;
  int fd_;
};

// The path that `name` stands for: a path with a '/' as it is, else a segment in `folder`, this user's if
// there is one. Throws Error(usage) with the names that are there.
std::filesystem::path find_segment(const std::string& name, const std::filesystem::path& folder);

}  // namespace moert::capture
