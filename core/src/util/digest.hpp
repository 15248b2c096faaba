// Digests that tell whether two things are the same. Not for security: whoever wants can make two things
// of one digest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace moert {

// XXH3 with 128 bits, over all that was added, in order.
class Digest {
 public:
  Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;
  ~Digest();
  void add(const void* data, uint64_t bytes);
  // A text and its length, so that "ab", "c" and "a", "bc" differ.
  void add(std::string_view text);
  std::string text() const;  // "xxh3-128:" and 32 hex digits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moert
