// SPDX-License-Identifier: Apache-2.0
#include "row_pool.hpp"

#include <algorithm>

namespace moert::capture {
namespace {

constexpr size_t kLeast = size_t{64} << 10, kMost = size_t{8} << 20;  // bytes of a piece

}  // namespace

void RowPool::reserve(size_t rows) {
  if (free_.size() >= rows) return;
  const size_t wanted = rows - free_.size();
  // As much again as there is, between the two limits: few pieces, and little that is never used.
  const size_t size = std::clamp(rows_ * row_bytes_, kLeast, kMost);
  const size_t count = std::max(wanted, size / row_bytes_);
  pieces_.reserve(pieces_.size() + 1);
  if (free_.capacity() < rows_ + count)
    free_.reserve(std::max(rows_ + count, 2 * free_.capacity()));
  if (count > SIZE_MAX / row_bytes_) throw std::bad_alloc();
  pieces_.push_back(host_.alloc<std::byte>(count * row_bytes_, "captured rows"));
  for (size_t i = count; i-- > 0;) free_.push_back(pieces_.back().get() + i * row_bytes_);
  rows_ += count;
}

}  // namespace moert::capture
