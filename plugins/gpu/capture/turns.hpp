// Numbers on their way to a device, in page-locked buffers that are filled in turn.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "../runtime.hpp"

namespace moert::gpu {

// A page-locked buffer from which one copy at a time is made.
class PinnedWords {
 public:
  PinnedWords(int32_t ordinal, size_t count);
  ~PinnedWords();  // the copy must be done
  PinnedWords(const PinnedWords&) = delete;
  PinnedWords& operator=(const PinnedWords&) = delete;

  // To be filled. Waits until the copy that was made last has read them.
  int32_t* free_words();
  // Enqueues a copy of the first `count`. Where it throws, the copy may be under way: the stream has to be waited for,
  // which must live as long as this.
  void send(Stream stream, void* device, size_t count);
  // Makes a stream wait for the copy.
  void arrive_in(Stream stream) const { wait(stream, copied_); }

 private:
  int32_t ordinal_;
  int32_t* words_ = nullptr;
  Event copied_ = nullptr;
};

// Two of them: filling one waits for the copy before the last, which is done where the device is not two steps behind.
class TurnsOfWords {
 public:
  TurnsOfWords(int32_t ordinal, size_t count) : buffers_{{ordinal, count}, {ordinal, count}} {}
  PinnedWords& next() {
    turn_ = 1 - turn_;
    return buffers_[turn_];
  }

 private:
  PinnedWords buffers_[2];
  size_t turn_ = 0;
};

}  // namespace moert::gpu
