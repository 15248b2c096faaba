// Rows of routing decisions of one layer, packed, and which of them were recorded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace moert::capture {

// Ids take as many bytes as the number of experts asks for: 1, 2 or 4. Whether a row was recorded is a
// flag of its own: no id stands for "nothing", since every value may be an id.
class LayerStore {
 public:
  LayerStore(int64_t num_experts, int64_t top_k, bool weights, bool margins);

  int64_t num_experts() const { return num_experts_; }
  int64_t top_k() const { return top_k_; }
  bool has_weights() const { return has_weights_; }
  bool has_margins() const { return has_margins_; }

  // Makes room for `slots` rows. New ones are absent. Existing rows stay; a throw changes nothing
  // that can be seen.
  void grow(size_t slots);
  void clear(size_t slot) { present_[slot] = 0; }
  bool present(size_t slot) const { return present_[slot] != 0; }

  // `ids` has k entries in [0, num_experts); `weights` and `margin` may be NULL where not kept.
  void put(size_t slot, const int32_t* ids, const float* weights, const float* margin);
  // Pointers may be NULL.
  void get(size_t slot, int32_t* ids, float* weights, float* margin) const;

  // Bytes per row of what is kept.
  size_t row_bytes() const;

 private:
  int64_t num_experts_, top_k_;
  size_t width_;
  bool has_weights_, has_margins_;
  std::vector<uint8_t> ids_;
  std::vector<float> weights_, margins_;
  std::vector<uint8_t> present_;
};

}  // namespace moert::capture
