// The metadata of a capture file: texts to numbers and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "capture/capture_info.hpp"

namespace moert::capture {

using Metadata = std::map<std::string, std::string>;

inline constexpr const char* kWriteAgain =
    "the file is damaged, or was written by a program with a fault: fetch or write it again";

struct FileHeader {
  CaptureInfo info;  // weights and margins: whether checksums of such tensors are there
  int64_t rows = 0, absent = 0;
  std::map<std::string, uint32_t> checksums;  // by tensor
};

Metadata metadata_of(const FileHeader& header);

// Throws Error(input): another format, a newer version, entries that are missing or contradict each other.
FileHeader read_metadata(const Metadata& metadata, const std::string& file_name);

}  // namespace moert::capture
