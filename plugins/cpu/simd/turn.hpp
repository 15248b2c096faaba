// Blocks of four by four words, turned: from rows of a file to lines of a panel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

namespace moert::cpu::simd {

// A vector that every processor of the architecture has: no level's instructions.
using Four = uint32_t __attribute__((vector_size(16)));

template <class T>
T load_as(const unsigned char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// lines[i] = the words i of four rows that lie `row` bytes apart.
inline void turn_four(const unsigned char* from, int64_t row, Four (&lines)[4]) {
  const auto r0 = load_as<Four>(from);
  const auto r1 = load_as<Four>(from + row);
  const auto r2 = load_as<Four>(from + 2 * row);
  const auto r3 = load_as<Four>(from + 3 * row);
  const Four low01 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
  const Four low23 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
  const Four high01 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
  const Four high23 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
  lines[0] = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
  lines[1] = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
  lines[2] = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
  lines[3] = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
}

}  // namespace moert::cpu::simd
