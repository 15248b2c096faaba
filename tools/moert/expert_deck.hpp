// Which experts made-up tokens go to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace moert::tool {

// Tokens choose their experts independently and uniformly. Which experts these are is dealt from a shuffled deck, in
// turn: one that was read comes again only when all others were read, so few tokens never find theirs in a cache.
// The same seed deals the same on every machine.
class ExpertDeck {
 public:
  ExpertDeck(int64_t experts, int64_t top_k, uint64_t seed);

  // Fills `ids` with [tokens, top_k] experts, different ones within a token. Returns how many different ones there
  // are in all.
  int64_t deal(int64_t tokens, std::vector<int32_t>* ids);

 private:
  void shuffle_first(std::vector<int32_t>& cards, size_t count);

  size_t top_k_;
  std::mt19937_64 random_;
  std::vector<int32_t> deck_, choice_, dealt_;
  size_t at_ = 0;
};

}  // namespace moert::tool
