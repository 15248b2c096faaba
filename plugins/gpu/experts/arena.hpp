// Cutting the caller's workspace into arrays.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace moert::gpu {

// Arrays one behind the other, each aligned to 256 bytes. Without memory it only counts, so that the function that
// takes the arrays also tells how many bytes they need.
class Arena {
 public:
  static constexpr uint64_t kAlignment = 256;
  Arena() = default;
  explicit Arena(void* memory) : memory_(reinterpret_cast<uintptr_t>(memory)) {}

  template <class T>
  T* take(int64_t count) {
    return static_cast<T*>(take_bytes(static_cast<uint64_t>(count) * sizeof(T)));
  }
  void* take_bytes(uint64_t bytes) {
    const uintptr_t at = memory_ + used_;
    used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return memory_ == 0
               ? nullptr
               : reinterpret_cast<void*>(at);  // NOLINT(performance-no-int-to-ptr): an offset
  }
  uint64_t used() const { return used_; }

 private:
  uintptr_t memory_ = 0;
  uint64_t used_ = 0;
};

}  // namespace moert::gpu
