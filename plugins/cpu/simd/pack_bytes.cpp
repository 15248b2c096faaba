// From codes of eight bits and their scales as they lie in a file to columns of panels.
// SPDX-License-Identifier: Apache-2.0
#include "pack_bytes.hpp"

#include <algorithm>
#include <cstring>
#include <moert/sdk/small_floats.hpp>

#include "matrix.hpp"

namespace moert::cpu::simd {
namespace {

// The scales of a weight's blocks, as a matrix of them.
class BlockScales {
 public:
  BlockScales(const BytePacking& p, const std::string& what)
      : rows_(p.scheme->block_rows), view_(*view_of(p, what)) {
    Matrix all = matrix_of(what);
    first_ = all.row_at(0);
    size_ = static_cast<int64_t>(dtype_bytes(view_.dtype, 1));
  }

  uint8_t byte(int64_t row, int64_t right) const { return *at(row, right); }
  float number(int64_t row, int64_t right) const {
    const unsigned char* from = at(row, right);
    uint16_t half = 0;
    std::memcpy(&half, from, view_.dtype == MOERT_DTYPE_F8_E8M0 ? 1 : 2);
    if (view_.dtype == MOERT_DTYPE_F8_E8M0) return e8m0_to_f32(*from);
    if (view_.dtype == MOERT_DTYPE_BF16) return bf16_to_f32(half);
    if (view_.dtype == MOERT_DTYPE_F16) return f16_to_f32(half);
    float number = 0;
    std::memcpy(&number, from, sizeof number);
    return number;
  }

 private:
  static const moert_tensor_t* view_of(const BytePacking& p, const std::string& what) {
    const moert_quant_view_t* quant = p.weight->quant;
    if (quant == nullptr || quant->scale == nullptr)
      throw PluginError(MOERT_DATA_LOSS, what + " comes without its scales");
    return quant->scale;
  }
  // Of any rank that the quant method takes.
  Matrix matrix_of(const std::string& what) const {
    const std::string name = what + ": its scale";
    if (view_.rank == 0) {
      moert_tensor_t one = view_;
      const int64_t size = 1;
      one.rank = 1;
      one.shape = one.strides = &size;
      return matrix(&one, name.c_str(), {view_.dtype}, 1, 1, MOERT_DATA_LOSS);
    }
    return matrix(&view_, name.c_str(), {view_.dtype}, -1, -1, MOERT_DATA_LOSS);
  }
  const unsigned char* at(int64_t row, int64_t right) const {
    int64_t index = 0;
    if (view_.rank > 0) index += (rows_ == 0 ? 0 : row / rows_) * view_.strides[0];
    if (view_.rank > 1) index += right * view_.strides[1];
    return first_ + index * size_;
  }

  int64_t rows_;
  const moert_tensor_t& view_;
  const unsigned char* first_ = nullptr;
  int64_t size_ = 0;
};

// Sixteen columns of a panel, a pair of the depth: where the four pieces of eight bytes go is in kernels.hpp.
constexpr int64_t kColumns = 16;
constexpr int64_t kPairs = 32;  // read at once

class Packer {
 public:
  Packer(const BytePacking& p, const std::string& what)
      : p_(p),
        what_(what),
        format_(p.scheme->format),
        codes_(matrix(p.weight, what.c_str(), {p.scheme->dtype}, -1, -1, MOERT_DATA_LOSS)),
        scales_(p, what),
        depth_(codes_.cols()),
        group_(format_.group == 0 ? depth_ : format_.group),
        group_bytes_(code_bytes(group_) + scales_bytes(format_.scales)) {}

  void run() const {
    const int64_t columns = (codes_.rows() + p_.width - 1) / p_.width * p_.width;
    for (int64_t n = 0; n < columns; n += kColumns) {
      unsigned char* panel = p_.panels + n / p_.width * panel_bytes(format_, depth_);
      for (int64_t d = 0; d < depth_; d += group_, panel += group_bytes_) {
        const int64_t numbers = std::min(group_, depth_ - d);
        for (int64_t first = 0; first < numbers; first += 2 * kPairs)
          put_codes(panel + first * kPanel, n, d + first, std::min(2 * kPairs, numbers - first));
        put_scales(panel + code_bytes(numbers), n,
                   p_.scheme->block_cols == 0 ? 0 : d / p_.scheme->block_cols);
      }
    }
  }

 private:
  int64_t column_of(int64_t n) const { return p_.first + n % p_.width; }

  void read(int64_t n, int64_t d, int64_t numbers, uint16_t (&pairs)[kPairs]) const {
    std::memset(pairs, 0, sizeof pairs);
    if (n >= codes_.rows()) return;
    const unsigned char* from = codes_.row_at(n) + d * codes_.col_stride();
    auto* bytes = reinterpret_cast<unsigned char*>(pairs);
    if (codes_.contiguous_rows())
      std::memcpy(bytes, from, static_cast<size_t>(numbers));
    else
      for (int64_t i = 0; i < numbers; ++i) bytes[i] = from[i * codes_.col_stride()];
  }

  void put_codes(unsigned char* to, int64_t n, int64_t d, int64_t numbers) const {
    uint16_t block[kColumns][kPairs];
    for (int64_t c = 0; c < kColumns; ++c) read(n + c, d, numbers, block[c]);
    const int64_t column = column_of(n);
    to += column / 32 * 64 + column % 32 / 16 * 8;
    for (int64_t u = 0; u < (numbers + 1) / 2; ++u, to += 2 * kPanel) {
      uint16_t line[kColumns];
      for (int64_t c = 0; c < kColumns; ++c) line[c] = block[c][u];
      for (int64_t q = 0; q < 4; ++q) std::memcpy(to + 16 * q, line + 4 * q, 8);
    }
  }

  // Columns behind the last one are multiplied with codes that are zeros, by any scale that is a number.
  void put_scales(unsigned char* to, int64_t n, int64_t right) const {
    const int64_t column = column_of(n);
    const int64_t last = codes_.rows() - 1;
    if (format_.scales == Scales::halves) {
      const float scale = scales_.number(std::min(n, last), right) * p_.factor;
      std::memcpy(to + column / 32 * 4, &scale, sizeof scale);
      std::memset(to + 8, 0, 56);  // the rest of the line, which leaves with bundles
      return;
    }
    for (int64_t c = 0; c < kColumns; ++c) {
      const int64_t row = std::min(n + c, last);
      if (format_.scales == Scales::powers) {
        to[column + c] = power(row, right);
      } else {
        const float scale = scales_.number(row, right) * p_.factor;
        std::memcpy(to + (column + c) * 4, &scale, sizeof scale);
      }
    }
  }

  uint8_t power(int64_t row, int64_t right) const {
    const uint8_t code = scales_.byte(row, right);
    if (code == 0xff)
      throw PluginError(MOERT_DATA_LOSS, what_ + ": the scale of row " + std::to_string(row) +
                                             ", group " + std::to_string(right) + " is NaN");
    return code;
  }

  const BytePacking& p_;
  const std::string& what_;
  PanelFormat format_;
  Matrix codes_;
  BlockScales scales_;
  int64_t depth_, group_, group_bytes_;
};

}  // namespace

void pack_bytes(const BytePacking& packing, const std::string& what) {
  Packer(packing, what).run();
}

}  // namespace moert::cpu::simd
