// The eight tiles of AMX. Included only by the file whose kernels use them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tile_bf16_amx.hpp"

namespace moert::cpu::simd {
namespace {

// Contracts: tile_bf16_amx.hpp. Written out, since gcc 12's names for these instructions take tiles as literal
// digits alone, and do not tell the compiler that memory is read and written.
struct AmxTiles {
  static void configure(const TileConfig& config) {
    __asm__ volatile("ldtilecfg %0" : : "m"(config));
  }
  static void release() { __asm__ volatile("tilerelease" : : : "memory"); }
  template <int Tile>
  static void zero() {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(Tile));
  }
  template <int Tile>
  static void load(const void* from, int64_t stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2"
                     :
                     : "r"(from), "r"(stride), "i"(Tile)
                     : "memory");
  }
  template <int Tile>
  static void store(void* to, int64_t stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)"
                     :
                     : "r"(to), "r"(stride), "i"(Tile)
                     : "memory");
  }
  template <int Sum, int Left, int Right>
  static void dot() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sum), "i"(Left), "i"(Right));
  }
};

}  // namespace
}  // namespace moert::cpu::simd
