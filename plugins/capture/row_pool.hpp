// Memory for rows of one size, used again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/host.hpp>
#include <vector>

namespace moert::capture {

// Rows stay where they are until they are given back. Memory grows in pieces and is not returned before
// the pool's end.
class RowPool {
 public:
  RowPool(const Host& host, size_t row_bytes) : host_(host), row_bytes_(row_bytes) {}

  // The next `rows` calls of take find room, and give_back never allocates. Throws when memory is short.
  void reserve(size_t rows);
  std::byte* take() noexcept {
    std::byte* row = free_.back();
    free_.pop_back();
    return row;
  }
  void give_back(std::byte* row) noexcept { free_.push_back(row); }
  uint64_t bytes() const { return rows_ * row_bytes_; }

 private:
  Host host_;
  size_t row_bytes_, rows_ = 0;
  std::vector<Host::Array<std::byte>> pieces_;
  std::vector<std::byte*> free_;
};

}  // namespace moert::capture
