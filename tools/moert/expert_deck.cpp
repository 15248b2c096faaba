// SPDX-License-Identifier: Apache-2.0
#include "expert_deck.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace moert::tool {

ExpertDeck::ExpertDeck(int64_t experts, int64_t top_k, uint64_t seed)
    : top_k_(static_cast<size_t>(top_k)),
      random_(seed),
      deck_(static_cast<size_t>(experts)),
      choice_(deck_.size()),
      dealt_(deck_.size()) {
  std::iota(deck_.begin(), deck_.end(), 0);
  choice_ = deck_;
  shuffle_first(deck_, deck_.size());
}

// The standard library's own shuffle differs from one library to the next.
void ExpertDeck::shuffle_first(std::vector<int32_t>& cards, size_t count) {
  for (size_t i = 0; i < count; ++i)
    std::swap(cards[i], cards[i + static_cast<size_t>(random_() % (cards.size() - i))]);
}

int64_t ExpertDeck::deal(int64_t tokens, std::vector<int32_t>* ids) {
  ids->clear();
  std::fill(dealt_.begin(), dealt_.end(), -1);
  int64_t distinct = 0;
  for (int64_t t = 0; t < tokens; ++t) {
    shuffle_first(choice_, top_k_);
    for (size_t k = 0; k < top_k_; ++k) {
      int32_t& card = dealt_[static_cast<size_t>(choice_[k])];
      if (card < 0) {
        card = deck_[at_];
        at_ = (at_ + 1) % deck_.size();
        ++distinct;
      }
      ids->push_back(card);
    }
  }
  return distinct;
}

}  // namespace moert::tool
