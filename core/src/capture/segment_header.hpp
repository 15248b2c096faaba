// The header of a shared segment, checked, and the locks that say who uses it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <moert/abi/capture_segment.h>

#include "capture/capture_info.hpp"

namespace moert::capture {

// What is constant in a segment, copied once: the file may change under its reader.
struct SegmentHeader {
  moert_capture_segment_t fields;
  std::vector<CapturedLayer> layers;
  std::map<std::string, std::string> facts;
};

// Throws Error(input) unless every offset and size lies in the file and fits the others.
SegmentHeader read_segment_header(int fd, const std::filesystem::path& path);

// Whether somebody holds the lock on a byte of the file; asking does not take it.
bool segment_locked(int fd, off_t byte);
bool lock_segment(int fd, off_t byte);  // false: somebody has it

// Throws Error(input) if the counters make no sense. Rows that wait.
uint64_t waiting_rows(uint64_t head, uint64_t tail, uint64_t capacity,
                      const std::filesystem::path& path);

}  // namespace moert::capture
