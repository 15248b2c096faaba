// Numbers on their way to a device, in page-locked buffers that are filled in turn.
// SPDX-License-Identifier: Apache-2.0
#include "turns.hpp"

namespace moert::gpu {

PinnedWords::PinnedWords(int32_t ordinal, size_t count) : ordinal_(ordinal) {
  const CurrentDevice current(ordinal);
  words_ = static_cast<int32_t*>(allocate_host(count * sizeof(int32_t)));
  try {
    copied_ = create_event();
  } catch (...) {
    release_host(words_);
    throw;
  }
}

PinnedWords::~PinnedWords() {
  try {
    const CurrentDevice current(ordinal_);
    destroy_event(copied_);
    release_host(words_);
  } catch (const PluginError&) {  // the device is gone, and its work with it
  }
}

int32_t* PinnedWords::free_words() {
  synchronize_event(copied_);
  return words_;
}

void PinnedWords::send(Stream stream, void* device, size_t count) {
  copy_to_device(stream, device, words_, count * sizeof(int32_t));
  record(stream, copied_);
}

}  // namespace moert::gpu
