// From a matrix as it lies in a file to columns of panels.
// SPDX-License-Identifier: Apache-2.0
#include "pack.hpp"

#include <algorithm>
#include <cstring>

#include "turn.hpp"

namespace moert::cpu::simd {
namespace {

// Units of the panels: a pair of bf16, an f16, an f32. A block of them is read row by row and written column by
// column, each in whole lines of the cache.
constexpr int64_t kColumns = 16;
constexpr int64_t kUnits = 16;

template <Storage S>
struct Unit {
  using Type = uint32_t;
  static constexpr int64_t kDepth = 1;
};
template <>
struct Unit<Storage::f16> {
  using Type = uint16_t;
  static constexpr int64_t kDepth = 1;
};
template <>
struct Unit<Storage::bf16> {
  using Type = uint32_t;
  static constexpr int64_t kDepth = 2;
};

// Units [unit, unit + count) of one row; a pair that only begins inside of the matrix ends in zero.
template <Storage S, class T>
void read_row(const Matrix& from, int64_t row, int64_t unit, int64_t count, T* to) {
  constexpr int64_t kDepth = Unit<S>::kDepth;
  constexpr int64_t kSize = sizeof(T) / kDepth;
  const int64_t stride = from.col_stride() * kSize;
  const unsigned char* at = from.row_at(row) + unit * kDepth * stride;
  const int64_t whole = std::min(count, from.cols() / kDepth - unit);
  if (from.contiguous_rows()) {
    std::memcpy(to, at, static_cast<size_t>(whole) * sizeof(T));
  } else if constexpr (kDepth == 1) {
    for (int64_t u = 0; u < whole; ++u) to[u] = load_as<T>(at + u * stride);
  } else {
    for (int64_t u = 0; u < whole; ++u)
      to[u] = load_as<uint16_t>(at + 2 * u * stride) |
              static_cast<uint32_t>(load_as<uint16_t>(at + (2 * u + 1) * stride)) << 16;
  }
  if (whole < count) to[whole] = load_as<uint16_t>(at + whole * kDepth * stride);
}

// The units of a block, row by row; what lies beyond the last row is zero.
template <Storage S>
void read_units(const Packing& p, int64_t column, int64_t unit, int64_t count,
                typename Unit<S>::Type (&block)[kColumns][kUnits]) {
  for (int64_t c = 0; c < kColumns; ++c) {
    if (column + c < p.from.rows())
      read_row<S>(p.from, column + c, unit, count, block[c]);
    else
      std::memset(block[c], 0, sizeof block[c]);
  }
}

// As Four: no level's instructions.
using Eight = uint16_t __attribute__((vector_size(16)));

// Through the cache: the kernel has just filled these pages with zeros, so their lines are there.
void store(unsigned char* to, Four value) { std::memcpy(to, &value, sizeof value); }

// A whole block whose rows are contiguous.
void turn(const unsigned char* from, int64_t row, unsigned char* to, int64_t line) {
  for (int64_t u = 0; u < kUnits; u += 4)
    for (int64_t c = 0; c < kColumns; c += 4) {
      Four lines[4];
      turn_four(from + c * row + u * 4, row, lines);
      for (int64_t i = 0; i < 4; ++i) store(to + (u + i) * line + c * 4, lines[i]);
    }
}

// A whole block whose columns are contiguous, as in a file that holds the matrix turned: each unit's numbers
// lie next to each other, those of a pair `col` bytes apart.
template <Storage S>
void lay(const unsigned char* from, int64_t col, unsigned char* to, int64_t line) {
  for (int64_t u = 0; u < kUnits; ++u, from += Unit<S>::kDepth * col, to += line) {
    if constexpr (Unit<S>::kDepth == 1) {
      for (int64_t c = 0; c < kColumns; c += 4) store(to + c * 4, load_as<Four>(from + c * 4));
    } else {
      for (int64_t c = 0; c < kColumns; c += 8) {
        const auto even = load_as<Eight>(from + c * 2);
        const auto odd = load_as<Eight>(from + col + c * 2);
        const Eight low = __builtin_shufflevector(even, odd, 0, 8, 1, 9, 2, 10, 3, 11);
        const Eight high = __builtin_shufflevector(even, odd, 4, 12, 5, 13, 6, 14, 7, 15);
        store(to + c * 4, reinterpret_cast<Four>(low));
        store(to + c * 4 + 16, reinterpret_cast<Four>(high));
      }
    }
  }
}

// True if the block could be packed the fast way. All of it must lie inside of the matrix.
template <Storage S>
bool pack_whole(const Matrix& from, int64_t column, int64_t unit, unsigned char* to, int64_t line) {
  constexpr int64_t kDepth = Unit<S>::kDepth;
  constexpr int64_t kSize = 4 / kDepth;
  if (column + kColumns > from.rows() || unit + kUnits > from.cols() / kDepth) return false;
  const int64_t col = from.col_stride() * kSize;
  const unsigned char* first = from.row_at(column) + unit * kDepth * col;
  if (from.contiguous_rows())
    turn(first, from.row_stride() * kSize, to, line);
  else if (from.row_stride() == 1)
    lay<S>(first, col, to, line);
  else
    return false;
  return true;
}

template <Storage S>
void pack_block(const Packing& p, int64_t column, int64_t unit) {
  using T = typename Unit<S>::Type;
  constexpr int64_t kLine = kPanel * static_cast<int64_t>(sizeof(T));
  unsigned char* to =
      p.panels + column / p.width * panel_bytes(S, p.from.cols()) +
      (unit * kPanel + p.first + column % p.width) * static_cast<int64_t>(sizeof(T));
  if constexpr (sizeof(T) == 4)
    if (pack_whole<S>(p.from, column, unit, to, kLine)) return;
  const int64_t units = (p.from.cols() + Unit<S>::kDepth - 1) / Unit<S>::kDepth;
  const int64_t count = std::min(kUnits, units - unit);
  T block[kColumns][kUnits];
  read_units<S>(p, column, unit, count, block);
  for (int64_t u = 0; u < count; ++u, to += kLine) {
    T line[kColumns];
    for (int64_t c = 0; c < kColumns; ++c) line[c] = block[c][u];
    std::memcpy(to, line, sizeof line);
  }
}

template <Storage S>
void pack_all(const Packing& p) {
  const int64_t units = (p.from.cols() + Unit<S>::kDepth - 1) / Unit<S>::kDepth;
  const int64_t columns = (p.from.rows() + p.width - 1) / p.width * p.width;
  for (int64_t column = 0; column < columns; column += kColumns)
    for (int64_t unit = 0; unit < units; unit += kUnits) pack_block<S>(p, column, unit);
}

}  // namespace

void pack(const Packing& packing) {
  switch (packing.storage) {
    case Storage::bf16: return pack_all<Storage::bf16>(packing);
    case Storage::f16: return pack_all<Storage::f16>(packing);
    case Storage::f32: return pack_all<Storage::f32>(packing);
    case Storage::mxfp4:
    case Storage::fp8:
    case Storage::int8: return;  // no matrices of numbers: pack_mxfp4, pack_bytes
  }
}

}  // namespace moert::cpu::simd
