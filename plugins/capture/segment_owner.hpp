// The owner's side of a shared segment: makes it, names it, publishes rows in it, removes it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/capture_segment.h>

#include <moert/sdk/capture_row.hpp>
#include <string>

#include "os_error.hpp"

namespace moert::capture {

// Nothing of it can be seen before link, and nothing is left after the end; after a crash the name stays,
// and the next one of that name removes it.
class SegmentOwner {
 public:
  // About `bytes` large, all of it really there. Throws MOERT_RESOURCE_EXHAUSTED with what was needed where.
  SegmentOwner(const std::string& folder, const moert_capture_spec_t& spec,
               const CaptureRowLayout& layout, uint64_t bytes);
  ~SegmentOwner();
  SegmentOwner(const SegmentOwner&) = delete;
  SegmentOwner& operator=(const SegmentOwner&) = delete;

  // Gives it its name; what a dead owner left there is removed. False: another owner has the name and lives.
  bool link(const std::string& name);
  const std::string& path() const { return path_; }  // with a name: that of the file

  uint64_t capacity() const { return capacity_; }
  uint64_t head() const { return head_; }
  // Rows from `head` on may be written while there is room. Throws MOERT_DATA_LOSS if the reader's counter
  // makes no sense.
  uint64_t free_rows() const;
  uint64_t waiting_rows() const noexcept;  // published and not taken; 0 if that makes no sense
  std::byte* row(uint64_t number) const { return rows_ + number % capacity_ * row_bytes_; }
  void publish(uint64_t head) noexcept;
  void set_lost(uint64_t lost) noexcept;
  bool reader_attached() const noexcept;

 private:
  struct Sizes {
    uint64_t facts_offset, rows_offset, total;
  };
  Sizes sizes(const moert_capture_spec_t& spec, uint64_t facts_bytes, uint64_t bytes);
  void fill(const moert_capture_spec_t& spec, const std::string& facts,
            const Sizes& sizes) noexcept;
  bool remove_stale() const;

  std::string folder_, path_;
  uint64_t row_bytes_, capacity_ = 0, head_ = 0;
  Fd fd_;
  uint64_t mapped_ = 0;
  moert_capture_segment_t* header_ = nullptr;
  std::byte* rows_ = nullptr;
  bool linked_ = false;
};

}  // namespace moert::capture
