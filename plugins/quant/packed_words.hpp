// Four-bit codes, eight to a word of 32 bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <moert/sdk/tensor.hpp>

#include "view.hpp"

namespace moert::quant {

// Which of a word's eight codes lies in its bits 4p to 4p + 3: the p-th, or as AWQ has it 0, 2, 4, 6, 1, 3, 5, 7.
enum class NibbleOrder { plain, awq };

// A matrix of codes [rows, cols] in an i32 matrix of words, which follow one of the two dimensions: that one has an
// eighth of the codes' size, rounded up.
class PackedWords {
 public:
  static constexpr int64_t kCodes = 8;
  static int64_t words(int64_t codes) { return codes / kCodes + (codes % kCodes != 0 ? 1 : 0); }

  // `matrix` is borrowed and has been checked; `dimension` is 0 or 1.
  PackedWords(const moert_tensor_t& matrix, int dimension, NibbleOrder order)
      : matrix_(&matrix), dimension_(dimension), order_(order) {}

  uint32_t get(int64_t row, int64_t col) const {
    return (word(address(row, col)) >> shift(row, col)) & 15u;
  }
  void set(int64_t row, int64_t col, uint32_t code) const {
    unsigned char* at = address(row, col);
    const uint32_t bits = (word(at) & ~(15u << shift(row, col))) | code << shift(row, col);
    std::memcpy(at, &bits, sizeof bits);
  }

 private:
  static uint32_t word(const unsigned char* at) {
    uint32_t bits = 0;
    std::memcpy(&bits, at, sizeof bits);
    return bits;
  }
  unsigned char* address(int64_t row, int64_t col) const {
    return dimension_ == 0 ? element(*matrix_, row / kCodes, col, 4)
                           : element(*matrix_, row, col / kCodes, 4);
  }
  uint32_t shift(int64_t row, int64_t col) const {
    const auto code = static_cast<uint32_t>((dimension_ == 0 ? row : col) % kCodes);
    return 4 * (order_ == NibbleOrder::plain ? code : code / 2 + code % 2 * 4);
  }

  const moert_tensor_t* matrix_;
  int dimension_;
  NibbleOrder order_;
};

}  // namespace moert::quant
