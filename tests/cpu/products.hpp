// Operands of one product: memory that ends with its last byte, numbers, panels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <stdexcept>
#include <vector>

#include "../../plugins/cpu/simd/kernels.hpp"

namespace moert::cpu::testing {

// Bytes behind which nothing can be read or written: the next page is closed. So it holds in every build, and for
// instructions that no sanitizer knows.
class Guarded {
 public:
  explicit Guarded(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const size_t open = (bytes_ + page - 1) / page * page;
    mapped_ = open + page;
    void* base =
        ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) throw std::runtime_error("mmap failed");
    base_ = static_cast<unsigned char*>(base);
    if (::mprotect(base_ + open, page, PROT_NONE) != 0) throw std::runtime_error("mprotect failed");
    data_ = base_ + open - bytes_;
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  Guarded(Guarded&& other) noexcept
      : bytes_(other.bytes_), mapped_(other.mapped_), base_(other.base_), data_(other.data_) {
    other.base_ = nullptr;
  }
  Guarded& operator=(Guarded&&) = delete;
  ~Guarded() {
    if (base_ != nullptr) ::munmap(base_, mapped_);
  }
  unsigned char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_, mapped_ = 0;
  unsigned char* base_ = nullptr;
  unsigned char* data_ = nullptr;
};

inline uint16_t bf16_bits(float x) {
  return static_cast<uint16_t>(__builtin_bit_cast(uint32_t, x) >> 16);
}
inline float of_bf16(uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16);
}

// Numbers in [-1, 1], exact in bf16 and f16.
inline float random_number(std::mt19937_64& random) {
  return of_bf16(bf16_bits(static_cast<float>(static_cast<int64_t>(random() % 513) - 256) / 256));
}

inline bool same(const float* a, const float* b, int64_t count) {
  return std::memcmp(a, b, static_cast<size_t>(count) * sizeof(float)) == 0;
}

// A weight of 64 columns as its panel and as the numbers that it stands for.
struct Panel {
  Panel(const simd::PanelFormat& panel_format, int64_t panel_depth)
      : format(panel_format),
        depth(panel_depth),
        bytes(simd::panel_bytes(format, depth)),
        numbers(static_cast<size_t>(depth * simd::kPanel)) {
    std::memset(bytes.data(), 0, bytes.bytes());
  }
  static Panel random(const simd::PanelFormat& format, int64_t depth, uint64_t seed);

  double number(int64_t d, int64_t column) const {
    return numbers[static_cast<size_t>(d * simd::kPanel + column)];
  }
  // The nearest number of bf16, f16 (of 8 digits at most) or f32.
  void put(int64_t d, int64_t column, float x);
  // Of mxfp4: the scale of a group and a column, then codes in it.
  void put_scale(int64_t group, int64_t column, uint8_t scale);
  void put_code(int64_t d, int64_t column, uint32_t code);
  // Of bytes: the scale of the group that has depth d, a power of two, and of the column, or of its half; then codes.
  void put_byte_scale(int64_t d, int64_t column, int exponent);
  void put_byte(int64_t d, int64_t column, uint8_t code);

  simd::PanelFormat format;
  int64_t depth;
  Guarded bytes;
  std::vector<double> numbers;

 private:
  unsigned char* group_of(int64_t d) const;
  unsigned char* scales_of(int64_t d) const;
};

}  // namespace moert::cpu::testing
