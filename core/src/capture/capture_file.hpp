// Capture files: a safetensors file of routing decisions. Format: docs/capture-format.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <utility>

#include "capture/capture_info.hpp"
#include "capture/row_places.hpp"

namespace moert::capture {

// Reads one. Everything is checked at opening, the contents of every row and the checksums too: ids in
// range and distinct within a row, keys rising, no bit for a layer that is not there. After that, reading
// cannot fail. Any thread.
class CaptureFile {
 public:
  explicit CaptureFile(const std::filesystem::path& path);  // throws Error(input)
  CaptureFile(CaptureFile&&) noexcept;
  CaptureFile& operator=(CaptureFile&&) noexcept;
  ~CaptureFile();

  const std::filesystem::path& path() const;
  const CaptureInfo& info() const;
  int64_t rows() const;
  RowKey key(int64_t row) const;
  int64_t find(RowKey key) const;                               // row, or -1
  std::pair<int64_t, int64_t> rows_of(int64_t sequence) const;  // [begin, end)
  bool present(int64_t row, size_t layer) const;
  // Of a layer that is present, or false and nothing written. `weights` [k], `margin`: only if the file has
  // them; each pointer may be nullptr.
  bool read(int64_t row, size_t layer, int32_t* ids, float* weights = nullptr,
            float* margin = nullptr) const;
  int64_t absent() const;  // (row, layer) pairs without decisions
  // No decision is absent, none was lost, and capturing was not cut short.
  bool complete() const { return absent() == 0 && info().lost == 0 && !info().cut; }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Writes one: rows in any order, under a temporary name until commit. Needs memory for a few pages,
// however many rows there are. What is never put is absent.
class CaptureWriter {
 public:
  // `places` is finished and outlives the writer. Throws Error(usage) for an info without layers, or whose
  // layers do not rise or make no sense; Error(device) where the file cannot be made that large.
  CaptureWriter(const std::filesystem::path& path, CaptureInfo info, const RowPlaces& places);
  CaptureWriter(const CaptureWriter&) = delete;
  CaptureWriter& operator=(const CaptureWriter&) = delete;
  ~CaptureWriter();

  // Replaces what the row had. `ids` nullptr: absent. `weights` [k] and `margin` are read if the info says
  // that they are kept. Throws Error(input) for ids that are repeated or out of range.
  void put(int64_t row, size_t layer, const int32_t* ids, const float* weights = nullptr,
           const float* margin = nullptr);
  void set_lost(int64_t rows);
  int64_t absent() const;  // decisions, so far
  void commit();           // checksums, header, sync, rename. Throws Error(device)

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moert::capture
