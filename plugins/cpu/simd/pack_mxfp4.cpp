// From codes and scales of mxfp4 as they lie in a file to columns of panels.
// SPDX-License-Identifier: Apache-2.0
#include "pack_mxfp4.hpp"

#include <cstring>
#include <moert/sdk/tensor.hpp>

#include "kernels.hpp"
#include "turn.hpp"

namespace moert::cpu::simd {
namespace {

constexpr uint8_t kNan = 0xff;

template <class T>
T swapped_nibbles(T bytes) {
  return (bytes & 0x0f0f0f0fu) << 4 | (bytes >> 4 & 0x0f0f0f0fu);
}

// The codes of a row, four bytes (eight codes) at a time, the first in the lowest nibble.
class Codes {
 public:
  explicit Codes(const moert_tensor_t& weight)
      : data_(static_cast<const unsigned char*>(weight.data)),
        row_(weight.strides[0]),
        col_(weight.strides[1]),
        high_first_((weight.flags & MOERT_TENSOR_HIGH_NIBBLE_FIRST) != 0) {}

  uint32_t eight(int64_t row, int64_t col) const {
    const int64_t index = row * row_ + col * col_;
    if (const unsigned char* at = bytes_at(row, col); at != nullptr) {
      const auto bytes = load_as<uint32_t>(at);
      return high_first_ ? swapped_nibbles(bytes) : bytes;
    }
    uint32_t all = 0;
    for (int64_t i = 0; i < 8; ++i) all |= one(index + i * col_) << 4 * i;
    return all;
  }
  // Where a row's codes lie as they are from there on; null where they do not.
  const unsigned char* bytes_at(int64_t row, int64_t col) const {
    const int64_t index = row * row_ + col * col_;
    return col_ == 1 && index % 2 == 0 ? data_ + index / 2 : nullptr;
  }
  bool high_first() const { return high_first_; }

 private:
  uint32_t one(int64_t index) const {
    return static_cast<uint32_t>(data_[index / 2] >> ((index % 2 != 0) != high_first_ ? 4 : 0)) &
           15u;
  }
  const unsigned char* data_;
  int64_t row_, col_;
  bool high_first_;
};

// The even nibbles, next to each other.
template <class T>
T even_nibbles(T x) {
  x &= 0x0f0f0f0fu;
  x = (x | x >> 4) & 0x00ff00ffu;
  return (x | x >> 8) & 0x0000ffffu;
}

// Eight codes of one column: its pair of words. Pairs of neighbours are in the same nibble of both.
template <class T>
T words_of(T codes) {
  return even_nibbles(codes) | even_nibbles(T(codes >> 4)) << 16;
}

void expect_extent(const moert_tensor_t& t, int64_t in_byte, const std::string& what) {
  int64_t last = 0;
  for (uint32_t d = 0; d < 2; ++d) {
    int64_t reach = 0;
    if (t.shape[d] < 1 || t.strides[d] < 0 ||
        __builtin_mul_overflow(t.shape[d] - 1, t.strides[d], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      throw PluginError(MOERT_DATA_LOSS, what + " has strides that fit no memory");
  }
  if (t.data == nullptr || static_cast<uint64_t>(last / in_byte) >= t.bytes)
    throw PluginError(MOERT_DATA_LOSS, what + " is " + tensor_text(t) + ", more than its " +
                                           std::to_string(t.bytes) + " bytes");
}

const moert_tensor_t& scales_of(const moert_tensor_t& weight, const std::string& what) {
  const moert_tensor_t* scale = weight.quant != nullptr ? weight.quant->scale : nullptr;
  if (scale == nullptr) throw PluginError(MOERT_DATA_LOSS, what + " comes without its scales");
  return expect_tensor(scale, (what + ": its scale").c_str(), MOERT_DTYPE_F8_E8M0,
                       {weight.shape[0], weight.shape[1] / kGroup});
}

// Sixteen columns are a line of words, which is written as a whole.
constexpr int64_t kColumns = 16;
constexpr int64_t kLine = kGroupCodes / 4;

class Packer {
 public:
  Packer(const moert_tensor_t& weight, const moert_tensor_t& scales, const std::string& what)
      : what_(what),
        codes_(weight),
        scales_(scales),
        rows_(weight.shape[0]),
        row_bytes_(weight.strides[0] % 2 == 0 ? weight.strides[0] / 2 : 0) {}

  // Rows n to n + 15, numbers d to d + 31, to columns from `column` on.
  void group(int64_t n, int64_t d, int64_t column, unsigned char* to) const {
    for (int64_t c = 0; c < kColumns; ++c)
      to[kGroupCodes + column + c] = n + c < rows_ ? scale(n + c, d) : uint8_t{0};
    const unsigned char* from = codes_.bytes_at(n, d);
    if (from != nullptr && row_bytes_ > 0 && n + kColumns <= rows_)
      whole(from, to + column * 4);
    else
      by_words(n, d, to + column * 4);
  }

 private:
  uint8_t scale(int64_t n, int64_t d) const {
    const uint8_t scale = static_cast<const unsigned char*>(
        scales_.data)[n * scales_.strides[0] + d / kGroup * scales_.strides[1]];
    if (scale == kNan)
      throw PluginError(MOERT_DATA_LOSS, what_ + ": the scale of row " + std::to_string(n) +
                                             ", column " + std::to_string(d) + " is NaN");
    return scale;
  }
  void whole(const unsigned char* from, unsigned char* to) const {
    for (int64_t c = 0; c < kColumns; c += 4) {
      Four lines[4];
      turn_four(from + c * row_bytes_, row_bytes_, lines);
      for (int64_t q = 0; q < 4; ++q) {
        const Four words = words_of(codes_.high_first() ? swapped_nibbles(lines[q]) : lines[q]);
        std::memcpy(to + q * kLine + c * 4, &words, sizeof words);
      }
    }
  }
  void by_words(int64_t n, int64_t d, unsigned char* to) const {
    for (int64_t q = 0; q < 4; ++q)
      for (int64_t c = 0; c < kColumns; ++c) {
        const uint32_t words = n + c < rows_ ? words_of(codes_.eight(n + c, d + 8 * q)) : 0;
        std::memcpy(to + q * kLine + c * 4, &words, sizeof words);
      }
  }

  const std::string& what_;
  const Codes codes_;
  const moert_tensor_t& scales_;
  int64_t rows_, row_bytes_;
};

}  // namespace

void pack_mxfp4(const CodePacking& p, const std::string& what) {
  const moert_tensor_t& weight = *p.weight;
  const moert_tensor_t& scales = scales_of(weight, what);
  expect_extent(weight, 2, what);
  expect_extent(scales, 1, what + ": its scale");
  const Packer packer(weight, scales, what);
  const int64_t depth = weight.shape[1];
  for (int64_t n = 0; n < (weight.shape[0] + p.width - 1) / p.width * p.width; n += kColumns) {
    unsigned char* group = p.panels + n / p.width * panel_bytes(Storage::mxfp4, depth);
    for (int64_t d = 0; d < depth; d += kGroup, group += kGroupBytes)
      packer.group(n, d, p.first + n % p.width, group);
  }
}

}  // namespace moert::cpu::simd
