// The order of everything that runs on the simulator: it follows from a seed (engine.hpp), and from nothing else.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace moert::sim {

// Small and fast: splitmix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

template <class Iterator>
void shuffle_range(Iterator first, Iterator last, Random& random) {
  for (auto left = last - first; left > 1; --left)
    std::iter_swap(first + (left - 1), first + static_cast<std::ptrdiff_t>(
                                                   random.next() % static_cast<uint64_t>(left)));
}

}  // namespace moert::sim
