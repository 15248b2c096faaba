// Rows of routing decisions of one layer, packed, and which of them were recorded.
// SPDX-License-Identifier: Apache-2.0
#include "store.hpp"

#include <cstring>

namespace moert::capture {
namespace {

size_t bytes_per_id(int64_t num_experts) {
  return num_experts <= 0x100 ? 1 : num_experts <= 0x10000 ? 2 : 4;
}

}  // namespace

LayerStore::LayerStore(int64_t num_experts, int64_t top_k, bool weights, bool margins)
    : num_experts_(num_experts),
      top_k_(top_k),
      width_(bytes_per_id(num_experts)),
      has_weights_(weights),
      has_margins_(margins) {}

void LayerStore::grow(size_t slots) {
  const auto k = static_cast<size_t>(top_k_);
  ids_.resize(slots * k * width_);
  if (has_weights_) weights_.resize(slots * k);
  if (has_margins_) margins_.resize(slots);
  present_.resize(slots, 0);
}

void LayerStore::put(size_t slot, const int32_t* ids, const float* weights, const float* margin) {
  const auto k = static_cast<size_t>(top_k_);
  for (size_t j = 0; j < k; ++j) {
    // Little-endian, byte by byte: the same on every machine.
    const auto id = static_cast<uint32_t>(ids[j]);
    for (size_t b = 0; b < width_; ++b)
      ids_[(slot * k + j) * width_ + b] = static_cast<uint8_t>(id >> (8 * b));
  }
  if (has_weights_) std::memcpy(&weights_[slot * k], weights, k * sizeof(float));
  if (has_margins_) margins_[slot] = *margin;
  present_[slot] = 1;
}

void LayerStore::get(size_t slot, int32_t* ids, float* weights, float* margin) const {
  const auto k = static_cast<size_t>(top_k_);
  for (size_t j = 0; ids != nullptr && j < k; ++j) {
    uint32_t id = 0;
    for (size_t b = 0; b < width_; ++b)
      id |= static_cast<uint32_t>(ids_[(slot * k + j) * width_ + b]) << (8 * b);
    ids[j] = static_cast<int32_t>(id);
  }
  if (weights != nullptr) std::memcpy(weights, &weights_[slot * k], k * sizeof(float));
  if (margin != nullptr) *margin = margins_[slot];
}

size_t LayerStore::row_bytes() const {
  const auto k = static_cast<size_t>(top_k_);
  return k * width_ + (has_weights_ ? k * sizeof(float) : 0) + (has_margins_ ? sizeof(float) : 0) +
         1;
}

}  // namespace moert::capture
