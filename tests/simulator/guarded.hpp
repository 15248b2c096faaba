// Memory of an exact size between guards, filled with 0xff: numbers that nobody wrote are NaN or -1.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace moert::sim {

// Under AddressSanitizer touching the guards is reported at once, otherwise intact() tells afterwards.
class Guarded {
 public:
  static constexpr size_t kAlignment = 256;

  Guarded() = default;
  explicit Guarded(size_t bytes);  // throws std::bad_alloc
  ~Guarded();
  Guarded(Guarded&& other) noexcept;
  Guarded& operator=(Guarded&& other) noexcept;

  unsigned char* data() const { return data_; }
  size_t size() const { return bytes_; }
  void poison();  // fills it again
  bool intact() const;

 private:
  unsigned char* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace moert::sim
