// From codes and scales of mxfp4 as they lie in a file to columns of panels.
// SPDX-License-Identifier: Apache-2.0
#include "pack_mxfp4.hpp"

#include <cstring>
#include <moert/sdk/tensor.hpp>

#include "kernels.hpp"

namespace moert::cpu::simd {
namespace {

constexpr uint8_t kNan = 0xff;

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
    if (col_ == 1 && index % 2 == 0) {
      uint32_t bytes = 0;
      std::memcpy(&bytes, data_ + index / 2, sizeof bytes);
      return high_first_ ? (bytes & 0x0f0f0f0fu) << 4 | (bytes >> 4 & 0x0f0f0f0fu) : bytes;
    }
    uint32_t all = 0;
    for (int64_t i = 0; i < 8; ++i) all |= one(index + i * col_) << 4 * i;
    return all;
  }

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
uint32_t even_nibbles(uint32_t x) {
  x &= 0x0f0f0f0fu;
  x = (x | x >> 4) & 0x00ff00ffu;
  return (x | x >> 8) & 0x0000ffffu;
}

// Eight codes of one column: its pair of words. Pairs of neighbours are in the same nibble of both.
uint32_t words_of(uint32_t codes) { return even_nibbles(codes) | even_nibbles(codes >> 4) << 16; }

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

}  // namespace

void pack_mxfp4(const CodePacking& p, const std::string& what) {
  const moert_tensor_t& weight = *p.weight;
  const moert_tensor_t& scales = scales_of(weight, what);
  expect_extent(weight, 2, what);
  expect_extent(scales, 1, what + ": its scale");
  const Codes codes(weight);
  const int64_t rows = weight.shape[0];
  const int64_t depth = weight.shape[1];
  for (int64_t n = 0; n < (rows + p.width - 1) / p.width * p.width; ++n) {
    const int64_t column = p.first + n % p.width;
    unsigned char* group = p.panels + n / p.width * panel_bytes(Storage::mxfp4, depth);
    for (int64_t d = 0; d < depth; d += kGroup, group += kGroupBytes) {
      for (int64_t q = 0; q < 4; ++q) {
        const uint32_t words = n < rows ? words_of(codes.eight(n, d + 8 * q)) : 0;
        std::memcpy(group + q * (kGroupCodes / 4) + column * 4, &words, sizeof words);
      }
      uint8_t scale = 0;
      if (n < rows)
        scale = static_cast<const unsigned char*>(
            scales.data)[n * scales.strides[0] + d / kGroup * scales.strides[1]];
      if (scale == kNan)
        throw PluginError(MOERT_DATA_LOSS, what + ": the scale of row " + std::to_string(n) +
                                               ", column " + std::to_string(d) + " is NaN");
      group[kGroupCodes + column] = scale;
    }
  }
}

}  // namespace moert::cpu::simd
