// Element types: sizes, names, and exact conversions of the 16-bit floats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include <moert/abi/tensor.h>

namespace moert {

struct DtypeInfo {
  uint32_t dtype;
  int bits;
  std::string_view name;         // ours, in messages and YAML: "bf16"
  std::string_view safetensors;  // in checkpoint headers: "BF16"; empty if the format has none
};

inline constexpr DtypeInfo kDtypes[] = {
    {MOERT_DTYPE_F64, 64, "f64", "F64"},
    {MOERT_DTYPE_F32, 32, "f32", "F32"},
    {MOERT_DTYPE_F16, 16, "f16", "F16"},
    {MOERT_DTYPE_BF16, 16, "bf16", "BF16"},
    {MOERT_DTYPE_F8_E4M3FN, 8, "f8_e4m3fn", "F8_E4M3"},
    {MOERT_DTYPE_F8_E4M3FNUZ, 8, "f8_e4m3fnuz", "F8_E4M3FNUZ"},
    {MOERT_DTYPE_F8_E5M2, 8, "f8_e5m2", "F8_E5M2"},
    {MOERT_DTYPE_F8_E8M0, 8, "f8_e8m0", "F8_E8M0"},
    {MOERT_DTYPE_F4_E2M1, 4, "f4_e2m1", "F4"},
    {MOERT_DTYPE_I64, 64, "i64", "I64"},
    {MOERT_DTYPE_I32, 32, "i32", "I32"},
    {MOERT_DTYPE_I16, 16, "i16", "I16"},
    {MOERT_DTYPE_I8, 8, "i8", "I8"},
    {MOERT_DTYPE_U64, 64, "u64", "U64"},
    {MOERT_DTYPE_U32, 32, "u32", "U32"},
    {MOERT_DTYPE_U16, 16, "u16", "U16"},
    {MOERT_DTYPE_U8, 8, "u8", "U8"},
    {MOERT_DTYPE_BOOL, 8, "bool", "BOOL"},
};

// nullptr for a number that is no dtype.
constexpr const DtypeInfo* dtype_info(uint32_t dtype) {
  for (const DtypeInfo& info : kDtypes)
    if (info.dtype == dtype) return &info;
  return nullptr;
}
constexpr std::string_view dtype_name(uint32_t dtype) {
  const DtypeInfo* info = dtype_info(dtype);
  return info != nullptr ? info->name : "invalid dtype";
}
// MOERT_DTYPE_INVALID where nothing has that name.
constexpr uint32_t dtype_from_name(std::string_view name) {
  for (const DtypeInfo& info : kDtypes)
    if (info.name == name) return info.dtype;
  return MOERT_DTYPE_INVALID;
}
constexpr uint32_t dtype_from_safetensors(std::string_view name) {
  for (const DtypeInfo& info : kDtypes)
    if (!name.empty() && info.safetensors == name) return info.dtype;
  return MOERT_DTYPE_INVALID;
}
constexpr int dtype_bits(uint32_t dtype) {
  const DtypeInfo* info = dtype_info(dtype);
  return info != nullptr ? info->bits : 0;
}
// Bytes of `n` densely packed elements; n >= 0 and n * bits must fit 64 bits.
constexpr uint64_t dtype_bytes(uint32_t dtype, int64_t n) {
  return (static_cast<uint64_t>(n) * static_cast<uint64_t>(dtype_bits(dtype)) + 7) / 8;
}

namespace detail {
// std::bit_cast for C++17, in which device code is compiled.
template <class To, class From>
constexpr To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, value);
}
}  // namespace detail

constexpr float bf16_to_f32(uint16_t bits) {
  return detail::bits_as<float>(static_cast<uint32_t>(bits) << 16);
}
// Round to nearest, ties to even; NaN stays a quiet NaN of the same sign.
constexpr uint16_t f32_to_bf16(float value) {
  const uint32_t bits = detail::bits_as<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x0040u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

constexpr float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0x1f) return detail::bits_as<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0)
    return detail::bits_as<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;  // subnormal: exact in f32
  return sign != 0 ? -magnitude : magnitude;
}
// Round to nearest, ties to even; overflow gives infinity, as IEEE 754 says.
constexpr uint16_t f32_to_f16(float value) {
  const uint32_t bits = detail::bits_as<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {  // below 2^-14: the sum aligns the fraction and rounds it
    const float shifted = detail::bits_as<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (detail::bits_as<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

}  // namespace moert
