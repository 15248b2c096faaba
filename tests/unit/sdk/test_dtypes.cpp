// Element types: the table, and conversions of every 16-bit float with all its roundings.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <moert/sdk/dtypes.hpp>
#include <set>
#include <string>

namespace moert {
namespace {

struct Format {
  const char* name;
  int fraction_bits, exponent_bits;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);

  uint32_t fraction_mask() const { return (1u << fraction_bits) - 1; }
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint32_t infinity() const { return ((1u << exponent_bits) - 1) << fraction_bits; }
  // Value of non-negative bits, by the fields' definition; infinity counts as the next power of two,
  // which is where rounding to it begins.
  double value(uint32_t bits) const {
    const auto exponent = static_cast<int>(bits >> fraction_bits);
    const auto fraction = static_cast<int>(bits & fraction_mask());
    const int whole = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
    return std::ldexp(whole, std::max(exponent, 1) - bias() - fraction_bits);
  }
};

void PrintTo(const Format& format, std::ostream* out) { *out << format.name; }

class SixteenBits : public ::testing::TestWithParam<Format> {};

TEST_P(SixteenBits, EveryNumberWidensExactly) {
  const Format& f = GetParam();
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float got = f.widen(static_cast<uint16_t>(bits));
    const uint32_t magnitude = bits & 0x7fffu;
    ASSERT_EQ(std::signbit(got), bits > 0x7fff) << "bits " << bits;
    if (magnitude > f.infinity())
      ASSERT_TRUE(std::isnan(got)) << "bits " << bits;
    else if (magnitude == f.infinity())
      ASSERT_TRUE(std::isinf(got)) << "bits " << bits;
    else
      ASSERT_EQ(std::fabs(static_cast<double>(got)), f.value(magnitude)) << "bits " << bits;
  }
}

TEST_P(SixteenBits, EveryNumberNarrowsToItself) {
  const Format& f = GetParam();
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t back = f.narrow(f.widen(static_cast<uint16_t>(bits)));
    if ((bits & 0x7fffu) <= f.infinity()) {
      ASSERT_EQ(back, bits);
      continue;
    }
    ASSERT_GT(back & 0x7fffu, f.infinity()) << "NaN " << bits << " became a number";
    ASSERT_EQ(back & 0x8000u, bits & 0x8000u) << "NaN " << bits << " changed its sign";
    ASSERT_NE(back & (1u << (f.fraction_bits - 1)), 0u) << "NaN " << bits << " is signalling";
  }
}

// Between every two neighbours: the halfway point goes to the even one, its f32 neighbours to the
// nearer one. That is every rounding there is.
TEST_P(SixteenBits, EveryHalfwayPointRoundsToEven) {
  const Format& f = GetParam();
  for (uint32_t bits = 0; bits < f.infinity(); ++bits) {
    const double exact = (f.value(bits) + f.value(bits + 1)) / 2;
    const auto halfway = static_cast<float>(exact);
    ASSERT_EQ(static_cast<double>(halfway), exact) << "f32 holds every halfway point";
    const uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(f.narrow(halfway), even) << "between " << bits << " and the next";
    ASSERT_EQ(f.narrow(-halfway), even | 0x8000u);
    ASSERT_EQ(f.narrow(std::nextafterf(halfway, 0)), bits) << "just below, at " << bits;
    ASSERT_EQ(f.narrow(std::nextafterf(halfway, HUGE_VALF)), bits + 1) << "just above, at " << bits;
  }
}

TEST_P(SixteenBits, NumbersOutsideGoToZeroAndInfinity) {
  const Format& f = GetParam();
  EXPECT_EQ(f.narrow(0.0f), 0u);
  EXPECT_EQ(f.narrow(-0.0f), 0x8000u);
  EXPECT_EQ(f.narrow(std::numeric_limits<float>::denorm_min()), 0u);
  EXPECT_EQ(f.narrow(std::numeric_limits<float>::max()), f.infinity());
  EXPECT_EQ(f.narrow(std::numeric_limits<float>::infinity()), f.infinity());
  EXPECT_EQ(f.narrow(-std::numeric_limits<float>::infinity()), f.infinity() | 0x8000u);
}

// NaNs whose payload lies in bits that are cut off must not become infinity.
TEST_P(SixteenBits, EveryNanPayloadStaysNan) {
  const Format& f = GetParam();
  for (uint32_t bit = 0; bit < 23; ++bit) {
    const float nan = detail::bits_as<float>(0x7f800000u | (1u << bit));
    EXPECT_GT(f.narrow(nan) & 0x7fffu, f.infinity()) << "payload bit " << bit;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, SixteenBits,
                         ::testing::Values(Format{"bf16", 7, 8, &bf16_to_f32, &f32_to_bf16},
                                           Format{"f16", 10, 5, &f16_to_f32, &f32_to_f16}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Dtypes, TheTableIsConsistent) {
  std::set<uint32_t> numbers;
  std::set<std::string_view> names;
  for (const DtypeInfo& info : kDtypes) {
    EXPECT_TRUE(numbers.insert(info.dtype).second) << info.name << " stands twice";
    EXPECT_TRUE(names.insert(info.name).second) << info.name << " stands twice";
    EXPECT_EQ(dtype_info(info.dtype), &info);
    EXPECT_EQ(dtype_name(info.dtype), info.name);
    EXPECT_EQ(dtype_from_name(info.name), info.dtype);
    EXPECT_EQ(dtype_from_safetensors(info.safetensors), info.dtype);
    EXPECT_EQ(dtype_bits(info.dtype), info.bits);
  }
  EXPECT_EQ(numbers.size(), static_cast<size_t>(MOERT_DTYPE_BOOL))
      << "a dtype of the ABI is missing";
}

TEST(Dtypes, UnknownOnesAreRecognised) {
  for (const uint32_t dtype : {0u, static_cast<uint32_t>(MOERT_DTYPE_BOOL) + 1, 0xffffffffu}) {
    EXPECT_EQ(dtype_info(dtype), nullptr);
    EXPECT_EQ(dtype_bits(dtype), 0);
    EXPECT_EQ(dtype_name(dtype), "invalid dtype");
  }
  for (const char* name : {"", "BF16", "f31", "bf16 "}) {
    EXPECT_EQ(dtype_from_name(name), static_cast<uint32_t>(MOERT_DTYPE_INVALID)) << name;
  }
  for (const char* name : {"", "bf16", "F31"}) {
    EXPECT_EQ(dtype_from_safetensors(name), static_cast<uint32_t>(MOERT_DTYPE_INVALID)) << name;
  }
}

TEST(Dtypes, BytesOfPackedElementsAreRoundedUp) {
  EXPECT_EQ(dtype_bytes(MOERT_DTYPE_F64, 3), 24u);
  EXPECT_EQ(dtype_bytes(MOERT_DTYPE_BF16, 3), 6u);
  EXPECT_EQ(dtype_bytes(MOERT_DTYPE_F4_E2M1, 3), 2u);
  EXPECT_EQ(dtype_bytes(MOERT_DTYPE_F4_E2M1, 0), 0u);
  EXPECT_EQ(dtype_bytes(MOERT_DTYPE_F32, int64_t{3} << 31), uint64_t{12} << 31);
}

}  // namespace
}  // namespace moert
