// SPDX-License-Identifier: Apache-2.0
#include "util/digest.hpp"

#define XXH_INLINE_ALL  // NOLINT: asks the library's header for its functions, so that nothing is linked
#include <xxhash.h>

namespace moert {

struct Digest::State {
  XXH3_state_t hash;
};

Digest::Digest() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->hash); }
Digest::~Digest() = default;

void Digest::add(const void* data, uint64_t bytes) {
  XXH3_128bits_update(&state_->hash, data, bytes);
}

void Digest::add(std::string_view text) {
  const uint64_t size = text.size();
  add(&size, sizeof size);
  add(text.data(), size);
}

std::string Digest::text() const {
  const XXH128_hash_t value = XXH3_128bits_digest(&state_->hash);
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, value);
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text = "xxh3-128:";
  for (const unsigned char byte : bytes.digest) {
    text += kHex[byte >> 4U];
    text += kHex[byte & 15U];
  }
  return text;
}

}  // namespace moert
