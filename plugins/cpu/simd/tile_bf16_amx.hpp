// The multiplication of bf16 rows with a panel of bf16 by tiles, for any Tiles: those of the processor, or in tests
// their emulation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "kernels.hpp"

namespace moert::cpu::simd {
namespace {

// What ldtilecfg reads (Intel's manual, volume 1, "Programming with Intel AMX"): bytes of a row and rows, by tile.
struct TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

// A Tiles has, of eight tiles of at most 16 rows of 64 bytes:
//   configure(config)    gives them their shapes and zeroes them; nothing else is called before
//   release()            gives them back: nothing is left behind in the thread
//   zero<t>()
//   load<t>(p, stride)   row r from p + r * stride; store<t> likewise
//   dot<c, a, b>()       c[m][n] += a[m][k] . b[k][n], where a and b hold pairs of bf16 and c holds f32
//
// How dot adds up: for one m and n the first numbers of the pairs make a chain of fused operations that begins at
// zero, with k rising, the second ones another; the sum of both is added to c. Subnormal numbers are zeros.
inline constexpr int64_t kTileRows = 16;
inline constexpr int64_t kTileRowBytes = 64;
inline constexpr int64_t kTileBytes = kTileRows * kTileRowBytes;
inline constexpr int64_t kTileDepth = 32;               // numbers of bf16 in a row
inline constexpr int64_t kPairsBytes = kPanel * 2 * 2;  // of a panel, for two numbers of the depth
// What is read of the rows at a time where they must be copied.
inline constexpr int64_t kCopiedTiles = 8;

// Tiles 0 to 3 hold the sums of 16 columns each, 4 rows, 5 to 7 parts of the panel. Only as many rows are
// configured as there are, so that nothing is multiplied in vain.
inline TileConfig tile_config(int64_t rows) {
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    config.row_bytes[t] = kTileRowBytes;
    config.rows[t] = static_cast<uint8_t>(t < 5 ? rows : kTileRows);
  }
  return config;
}

// Adds what 32 numbers of the depth give: rows in tile 4, the panel from `at` on.
template <class Tiles, int Column = 0>
inline void add_tiles(Tiles& tiles, const unsigned char* at) {
  if constexpr (Column < 4) {
    constexpr int kRight = 5 + Column % 3;
    tiles.template load<kRight>(at + Column * kTileRowBytes, kPairsBytes);
    tiles.template dot<Column, 4, kRight>();
    add_tiles<Tiles, Column + 1>(tiles, at);
  }
}

template <class Tiles, int Column = 0>
inline void begin_sums(Tiles& tiles, const Product& p, const float* out) {
  if constexpr (Column < 4) {
    if (p.add)
      tiles.template load<Column>(out + 16 * Column, kPanel * 4);
    else
      tiles.template zero<Column>();
    begin_sums<Tiles, Column + 1>(tiles, p, out);
  }
}

template <class Tiles, int Column = 0>
inline void end_sums(Tiles& tiles, float* out) {
  if constexpr (Column < 4) {
    tiles.template store<Column>(out + 16 * Column, kPanel * 4);
    end_sums<Tiles, Column + 1>(tiles, out);
  }
}

inline const unsigned char* row_at(const Product& p, int64_t row, int64_t index) {
  return static_cast<const unsigned char*>(p.rows[row]) + index * 2;
}

// Where a tile of rows is: row r at `at + r * stride`, the next 32 numbers of the depth `step` further on.
struct TileRows {
  const unsigned char* at;
  int64_t stride, step;
};

// Rows that lie at one distance from each other are read in place. True also for a single one.
inline bool rows_in_place(const Product& p, int64_t row, int64_t height, int64_t* stride) {
  const auto address = [&](int64_t r) { return reinterpret_cast<intptr_t>(p.rows[row + r]); };
  *stride = height > 1 ? address(1) - address(0) : 0;
  for (int64_t r = 2; r < height; ++r)
    if (address(r) - address(r - 1) != *stride) return false;
  return true;
}

// `count` tiles of the depth from number `d` on, one behind the other.
inline TileRows copy_rows(const Product& p, int64_t row, int64_t height, int64_t d, int64_t count,
                          unsigned char* to) {
  for (int64_t r = 0; r < height; ++r) {
    const unsigned char* from = row_at(p, row + r, d);
    for (int64_t i = 0; i < count; ++i)
      __builtin_memcpy(to + i * kTileBytes + r * kTileRowBytes, from + i * kTileRowBytes,
                       kTileRowBytes);
  }
  return {to, kTileRowBytes, kTileBytes};
}

// The last numbers of the depth, fewer than 32. Both sides are filled up with zeros, since neither a row nor the panel
// is read beyond its end; an odd number's neighbour is zero in the panel.
template <class Tiles>
void add_rest(Tiles& tiles, const Product& p, int64_t row, int64_t height, int64_t d,
              unsigned char* rows) {
  const int64_t left = p.first + p.depth - d;
  alignas(64) unsigned char panel[kTileRows * kPairsBytes] = {};
  __builtin_memset(rows, 0, kTileBytes);
  for (int64_t r = 0; r < height; ++r)
    __builtin_memcpy(rows + r * kTileRowBytes, row_at(p, row + r, d),
                     static_cast<size_t>(left * 2));
  __builtin_memcpy(panel, p.panel + d / 2 * kPairsBytes,
                   static_cast<size_t>((left + 1) / 2 * kPairsBytes));
  tiles.template load<4>(rows, kTileRowBytes);
  add_tiles(tiles, panel);
}

template <class Tiles>
void rows_tile(Tiles& tiles, const Product& p, int64_t row, int64_t height) {
  alignas(64) unsigned char copy[kCopiedTiles * kTileBytes];
  float* out = p.out + row * kPanel;
  int64_t stride = 0;
  const bool in_place = rows_in_place(p, row, height, &stride);
  tiles.configure(tile_config(height));
  begin_sums(tiles, p, out);
  int64_t d = p.first;
  for (int64_t left = p.depth / kTileDepth; left > 0;) {
    const int64_t count = left < kCopiedTiles ? left : kCopiedTiles;
    const TileRows rows = in_place ? TileRows{row_at(p, row, d), stride, kTileRowBytes}
                                   : copy_rows(p, row, height, d, count, copy);
    for (int64_t i = 0; i < count; ++i, d += kTileDepth) {
      tiles.template load<4>(rows.at + i * rows.step, rows.stride);
      add_tiles(tiles, p.panel + d / 2 * kPairsBytes);
    }
    left -= count;
  }
  if (d < p.first + p.depth) add_rest(tiles, p, row, height, d, copy);
  end_sums(tiles, out);
}

// Tiles are the thread's: whoever else uses them in it finds them released.
template <class Tiles>
void multiply_tiles(const Product& p, Tiles& tiles) {
  for (int64_t row = 0; row < p.count; row += kTileRows) {
    const int64_t left = p.count - row;
    rows_tile(tiles, p, row, left < kTileRows ? left : kTileRows);
  }
  tiles.release();
}
template <class Tiles>
void multiply_tiles(const Product& p) {
  Tiles tiles;
  multiply_tiles(p, tiles);
}

}  // namespace
}  // namespace moert::cpu::simd
