// From a matrix as it lies in a file to columns of panels.
// SPDX-License-Identifier: Apache-2.0
#include "pack.hpp"

#include <algorithm>
#include <cstring>

namespace moert::cpu::simd {
namespace {

// Units of the panels: a pair of bf16, an f16, an f32. A block of them is read row by row and written column by
// column, each in whole lines of the cache.
constexpr int64_t kColumns = 16;
constexpr int64_t kUnits = 16;

template <class T>
T load(const unsigned char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

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
    for (int64_t u = 0; u < whole; ++u) to[u] = load<T>(at + u * stride);
  } else {
    for (int64_t u = 0; u < whole; ++u)
      to[u] = load<uint16_t>(at + 2 * u * stride) |
              static_cast<uint32_t>(load<uint16_t>(at + (2 * u + 1) * stride)) << 16;
  }
  if (whole < count) to[whole] = load<uint16_t>(at + whole * kDepth * stride);
}

template <Storage S>
void pack_block(const Packing& p, int64_t column, int64_t unit) {
  using T = typename Unit<S>::Type;
  const int64_t units = (p.from.cols() + Unit<S>::kDepth - 1) / Unit<S>::kDepth;
  const int64_t count = std::min(kUnits, units - unit);
  T block[kColumns][kUnits];
  for (int64_t c = 0; c < kColumns; ++c) {
    if (column + c < p.from.rows())
      read_row<S>(p.from, column + c, unit, count, block[c]);
    else
      std::memset(block[c], 0, sizeof block[c]);
  }
  unsigned char* to =
      p.panels + column / p.width * panel_bytes(S, p.from.cols()) +
      (unit * kPanel + p.first + column % p.width) * static_cast<int64_t>(sizeof(T));
  for (int64_t u = 0; u < count; ++u, to += kPanel * static_cast<int64_t>(sizeof(T))) {
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
    case Storage::mxfp4: return;  // is no matrix of numbers: pack_mxfp4
  }
}

}  // namespace moert::cpu::simd
