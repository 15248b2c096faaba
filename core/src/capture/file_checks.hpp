// Where the parts of an open capture file are, and the checks of its contents.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "capture/capture_info.hpp"
#include "capture/file_layout.hpp"

namespace moert::capture {

// Pointers into a mapping, at any alignment.
struct FileParts {
  int64_t rows = 0;
  const std::byte *ids = nullptr, *present = nullptr, *sequences = nullptr, *positions = nullptr;
  const std::byte *weights = nullptr, *margins = nullptr;  // nullptr: not kept

  RowKey key(int64_t row) const {
    RowKey key;
    std::memcpy(&key.sequence, sequences + row * 8, sizeof key.sequence);
    std::memcpy(&key.position, positions + row * 8, sizeof key.position);
    return key;
  }
  bool is_present(const FileLayout& layout, int64_t row, size_t layer) const {
    const auto at = static_cast<size_t>(row) * layout.present_bytes() + layer / 8;
    return (static_cast<unsigned>(present[at]) >> (layer % 8) & 1U) != 0;
  }
};

// Every key, bit and id. Throws Error(input); returns the number of absent (row, layer) pairs.
int64_t check_contents(const FileParts& parts, const CaptureInfo& info, const FileLayout& layout,
                       const std::string& file_name);

}  // namespace moert::capture
