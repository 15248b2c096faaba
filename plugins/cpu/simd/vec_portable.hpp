// Sixteen f32 in an array: what every processor has. Compilers make of the loops what they can.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codes_fp8.hpp"
#include "wide_portable.hpp"

namespace moert::cpu::simd {
namespace {

// Contracts: vec_avx512.hpp; but fma rounds twice, since a fused one is a call where there is no instruction.
struct Vec {
  float v[16];

  static constexpr int kRows = 2;
  static constexpr int kColumns = 1;
  using Doubles = Wide;

  // f(i) for each number.
  template <class F>
  static Vec each(F f) {
    Vec out;
    for (int i = 0; i < 16; ++i) out.v[i] = f(i);
    return out;
  }
  static Vec zero() { return all(0.0f); }
  static Vec all(float x) {
    return each([x](int) { return x; });
  }
  static Vec load(const float* p) {
    return each([p](int i) { return p[i]; });
  }
  void store(float* p) const {
    for (int i = 0; i < 16; ++i) p[i] = v[i];
  }

  static float of_bits(uint32_t bits) { return __builtin_bit_cast(float, bits); }
  static uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
  template <class T>
  static T at(const unsigned char* p, int i) {
    T value;
    __builtin_memcpy(&value, p + i * static_cast<int>(sizeof(T)), sizeof(T));
    return value;
  }
  static Vec load_f32(const unsigned char* p) {
    return each([p](int i) { return at<float>(p, i); });
  }
  static void load_pairs(const unsigned char* p, Vec* first, Vec* second) {
    for (int i = 0; i < 16; ++i) {
      const uint32_t pair = static_cast<uint32_t>(at<uint16_t>(p, 2 * i)) |
                            static_cast<uint32_t>(at<uint16_t>(p, 2 * i + 1)) << 16;
      first->v[i] = of_bits(pair << 16);
      second->v[i] = of_bits(pair & 0xffff0000u);
    }
  }
  static float from_f16(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t magnitude = bits & 0x7fffu;
    // A number of the same digits 2^112 too small, put right by a product that is exact.
    const float small = of_bits(magnitude << 13) * 0x1p112f;
    const uint32_t special = 0x7f800000u | (magnitude & 0x3ffu) << 13;
    return of_bits(sign | (magnitude >= 0x7c00u ? special : bits_of(small)));
  }
  static Vec load_f16(const unsigned char* p) {
    return each([p](int i) { return from_f16(at<uint16_t>(p, i)); });
  }
  static float from_e2m1(uint32_t code) {
    constexpr float kTable[16] = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                  -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    return kTable[code & 15];
  }
  static void load_codes(const unsigned char* p, int j, Vec* first, Vec* second) {
    for (int i = 0; i < 16; ++i) {
      first->v[i] = from_e2m1(static_cast<uint32_t>(at<uint16_t>(p, 2 * i)) >> 4 * j);
      second->v[i] = from_e2m1(static_cast<uint32_t>(at<uint16_t>(p, 2 * i + 1)) >> 4 * j);
    }
  }
  static float from_fp8(uint32_t code) {
    return of_bits((fp8_as_bf16(code & 127) | (code & 128) << 8) << 16);
  }
  static void load_fp8(const unsigned char* p, Vec* first, Vec* second) {
    for (int i = 0; i < 16; ++i) {
      const unsigned char* pair = p + i / 4 * 16 + i % 4 * 2;
      first->v[i] = from_fp8(pair[0]);
      second->v[i] = from_fp8(pair[1]);
    }
  }
  static void load_int8(const unsigned char* p, Vec* first, Vec* second) {
    for (int i = 0; i < 16; ++i) {
      const unsigned char* pair = p + i / 4 * 16 + i % 4 * 2;
      first->v[i] = static_cast<float>(static_cast<int8_t>(pair[0]));
      second->v[i] = static_cast<float>(static_cast<int8_t>(pair[1]));
    }
  }
  static Vec load_scales(const unsigned char* p) {
    return each([p](int i) {
      return of_bits(p[i] == 0 ? 0x00400000u : static_cast<uint32_t>(p[i]) << 23);
    });
  }
  static uint16_t to_f16(float x) {
    const uint32_t sign = bits_of(x) >> 16 & 0x8000u;
    const uint32_t magnitude = bits_of(x) & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
    if (magnitude < 0x38800000u)  // subnormal: the sum aligns the digits and rounds them
      return static_cast<uint16_t>(sign | (bits_of(of_bits(magnitude) + 0.5f) - 0x3f000000u));
    const uint32_t near = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return static_cast<uint16_t>(sign | (near - 0x38000000u) >> 13);
  }
  static uint16_t to_bf16(float x) {
    const uint32_t bits = bits_of(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
    return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
  }
  template <class F>
  void store_words(void* p, F f) const {
    for (int i = 0; i < 16; ++i) {
      const uint16_t word = f(v[i]);
      __builtin_memcpy(static_cast<unsigned char*>(p) + 2 * i, &word, 2);
    }
  }
  void store_f16(void* p) const { store_words(p, to_f16); }
  void store_bf16(void* p) const { store_words(p, to_bf16); }

  friend Vec operator+(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.v[i] + b.v[i]; });
  }
  friend Vec operator-(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.v[i] - b.v[i]; });
  }
  friend Vec operator*(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.v[i] * b.v[i]; });
  }
  friend Vec operator/(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.v[i] / b.v[i]; });
  }
  static Vec fma(const Vec& a, const Vec& b, const Vec& c) {
    return each([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
  }
  static Vec min(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  static Vec max(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  static Vec if_negative(const Vec& x, const Vec& yes, const Vec& no) {
    return each([&](int i) { return x.v[i] < 0 ? yes.v[i] : no.v[i]; });
  }
  static Vec minus_abs(const Vec& x) {
    return each([&](int i) { return of_bits(bits_of(x.v[i]) | 0x80000000u); });
  }
  // Of numbers below 2^22: the sum has no digits behind the point.
  static Vec round(const Vec& x) {
    return each([&](int i) { return (x.v[i] + 12582912.0f) - 12582912.0f; });
  }
  static float power_of_two(int n) { return of_bits(static_cast<uint32_t>(n + 127) << 23); }
  static Vec scale(const Vec& x, const Vec& n) {
    return each([&](int i) {
      const int whole = n.v[i] == n.v[i] ? static_cast<int>(n.v[i]) : 0;
      const int half = whole >> 1;
      return x.v[i] * power_of_two(half) * power_of_two(whole - half);
    });
  }
};

}  // namespace
}  // namespace moert::cpu::simd
