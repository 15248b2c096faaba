// The groups of a panel of bytes, one after the other, for any kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tile_f32.hpp"

namespace moert::cpu::simd {
namespace {

struct CodeGroup {
  int64_t first;  // its place in a row
  int64_t numbers;
  const unsigned char* codes;
  const unsigned char* scales;
  bool add;  // to what is in `out`
  int64_t index;
};

// f(group) for those that the product wants.
template <class F>
inline void each_code_group(const Product& p, F f) {
  const int64_t end = p.first + p.depth;
  const int64_t size = p.format.group == 0 ? end : p.format.group;
  const int64_t bytes = code_bytes(size) + scales_bytes(p.format.scales);
  for (int64_t first = p.first; first < end; first += size) {
    const int64_t numbers = end - first < size ? end - first : size;
    const unsigned char* codes = p.panel + first / size * bytes;
    f(CodeGroup{first, numbers, codes, codes + code_bytes(numbers), p.add || first > p.first,
                first / size});
  }
}

// The scales of columns 16 c to 16 c + 15.
template <class V>
inline V group_scales(Scales scales, const unsigned char* at, int c) {
  if (scales == Scales::powers) return V::load_scales(at + 16 * c);
  float numbers[16];
  if (scales == Scales::halves) return V::all(number_at(at, c / 2));
  __builtin_memcpy(numbers, at + 64 * c, sizeof numbers);
  return V::load(numbers);
}

}  // namespace
}  // namespace moert::cpu::simd
