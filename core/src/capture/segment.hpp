// The reader's side of a shared segment: rows that another process captures, as they come.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "capture/capture_info.hpp"

namespace moert::capture {

std::filesystem::path default_segment_folder();  // /dev/shm

enum class SegmentState {
  open,        // its owner lives
  closed,      // its owner ended it: nothing more will come
  owner_died,  // likewise, without a word
};

// Rows that were copied out of a segment.
class SegmentRows {
 public:
  SegmentRows();
  SegmentRows(SegmentRows&&) noexcept;
  SegmentRows& operator=(SegmentRows&&) noexcept;
  ~SegmentRows();

  int64_t rows() const { return rows_; }
  RowKey key(int64_t row) const;
  bool present(int64_t row, size_t layer) const;
  // Of a layer that is present, or false and nothing written. Pointers may be nullptr; `weights` [k] and
  // `margin` are written if the segment has them. Ids are as another process wrote them: not checked.
  bool read(int64_t row, size_t layer, int32_t* ids, float* weights = nullptr,
            float* margin = nullptr) const;

 private:
  friend class SegmentReader;
  struct Form;
  std::shared_ptr<const Form> form_;
  std::vector<std::byte> bytes_;
  int64_t rows_ = 0;
};

// The one reader of a segment. One thread at a time.
//   for (;;) {
//     const SegmentState state = reader.state();  // asked first: what was published before can be taken
//     if (reader.take(batch) == 0 && state != SegmentState::open) break;
//   }
class SegmentReader {
 public:
  // `name` is a name in `folder` (of this user, or the only one of that name), or a path: with a '/'.
  // Throws Error(usage): none of that name (the message lists those that are there), another reader is
  // attached; Error(input): no segment, of another version, of sizes that contradict each other.
  explicit SegmentReader(const std::string& name,
                         const std::filesystem::path& folder = default_segment_folder());
  SegmentReader(SegmentReader&&) noexcept;
  SegmentReader& operator=(SegmentReader&&) noexcept;
  ~SegmentReader();

  const std::filesystem::path& path() const;
  CaptureInfo info() const;  // layers, weights, margins, and `lost` as of now
  int64_t owner_pid() const;
  SegmentState state() const;
  int64_t waiting() const;  // rows that can be taken; throws Error(input) as copy does

  // Copies up to `most` published rows, and of large ones no more than 256 MB; how many. They are the segment's until release, and come again,
  // here or to the next reader, if that is not called. Throws Error(input) if the owner's counters make
  // no sense, or its file became shorter.
  int64_t copy(SegmentRows& to, int64_t most = INT64_MAX);
  void release();  // the rows of the last copy: their places may be written again
  // Both at once.
  int64_t take(SegmentRows& to, int64_t most = INT64_MAX) {
    const int64_t rows = copy(to, most);
    release();
    return rows;
  }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct SegmentInfo {
  std::string name;
  std::filesystem::path path;
  int64_t user = 0;  // whose it is
  bool owner_alive = false, closed = false, reader_attached = false;
  int64_t owner_pid = 0;
  int64_t waiting = 0;  // published and not taken
  uint64_t bytes = 0;   // of the file
  std::string problem;  // why nothing but name, path, user and bytes is known; empty: all is
};

// By path. A folder that is not there has none.
std::vector<SegmentInfo> list_segments(
    const std::filesystem::path& folder = default_segment_folder());

// Removes what dead owners left and no reader is attached to, with the rows that wait there: all of it, or
// that of one name. What was removed. What this user may not remove stays.
std::vector<SegmentInfo> remove_stale(
    const std::filesystem::path& folder = default_segment_folder(), const std::string& name = {});

}  // namespace moert::capture
