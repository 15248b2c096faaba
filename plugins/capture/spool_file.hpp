// A file without a name that rows are appended to and read from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "os_error.hpp"

namespace moert::capture {

// Nobody else can open it, and its blocks are free again when it is closed, however the process ends.
class SpoolFile {
 public:
  explicit SpoolFile(std::string folder);  // throws: the folder is not there, not writable
  const std::string& folder() const { return folder_; }
  // All bytes, or the errno of what was in the way. Any thread that has SIGXFSZ blocked.
  int write(const std::byte* from, size_t bytes, uint64_t offset) const;
  void read(std::byte* to, size_t bytes, uint64_t offset) const;  // throws MOERT_DATA_LOSS

 private:
  std::string folder_;
  Fd fd_;
};

}  // namespace moert::capture
