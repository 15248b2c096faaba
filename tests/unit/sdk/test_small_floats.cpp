// Floats of eight and four bits: every code, and every rounding that there is. The values are those of
// another implementation (tests/data/small_floats.json); roundings follow from the values.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <moert/sdk/small_floats.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace moert {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct EightBits {
  const char* name;
  float (*widen)(uint8_t);
  uint8_t (*narrow)(float);
  uint32_t sign;        // its bit
  uint32_t largest;     // code of the largest finite number
  uint32_t infinity;    // code that infinity becomes
  double positive_sum;  // of all finite numbers, a checksum from the formats' definitions
  bool negative_zero = true;

  uint32_t negated(uint32_t code) const { return code == 0 && !negative_zero ? 0 : code | sign; }
};
void PrintTo(const EightBits& format, std::ostream* out) { *out << format.name; }

const nlohmann::json& table(const std::string& format) {
  static const nlohmann::json tables = [] {
    std::ifstream file(MOERT_SOURCE_DIR "/tests/data/small_floats.json");
    return nlohmann::json::parse(file);
  }();
  return tables.at(format);
}

// Numbers written as the bits of an f32.
std::vector<float> numbers(const std::string& format, const char* key) {
  std::istringstream words(table(format).at(key).get<std::string>());
  std::vector<float> result;
  for (std::string word; words >> word;)
    result.push_back(word == "nan" ? std::numeric_limits<float>::quiet_NaN()
                                   : detail::bits_as<float>(
                                         static_cast<uint32_t>(std::stoul(word, nullptr, 16))));
  return result;
}

void expect_same(float got, float want, uint32_t code) {
  if (std::isnan(want))
    EXPECT_TRUE(std::isnan(got)) << "code " << code;
  else
    EXPECT_EQ(detail::bits_as<uint32_t>(got), detail::bits_as<uint32_t>(want)) << "code " << code;
}

class SmallFloats : public ::testing::TestWithParam<EightBits> {
 protected:
  const EightBits& f = GetParam();
  const std::vector<float> values = numbers(f.name, "values");
};

TEST_P(SmallFloats, EveryCodeHasItsValue) {
  ASSERT_EQ(values.size(), size_t{2} * f.sign);
  for (uint32_t code = 0; code < values.size(); ++code)
    expect_same(f.widen(static_cast<uint8_t>(code)), values[code], code);
}

TEST_P(SmallFloats, ValuesSumUpAsDefined) {
  double sum = 0;
  for (uint32_t code = 1; code <= f.largest; ++code) sum += f.widen(static_cast<uint8_t>(code));
  EXPECT_EQ(sum, f.positive_sum);
}

TEST_P(SmallFloats, EveryNumberNarrowsToItself) {
  for (uint32_t code = 0; code <= f.largest; ++code) {
    EXPECT_EQ(f.narrow(values[code]), code);
    EXPECT_EQ(f.narrow(-values[code]), f.negated(code));
  }
}

// Between neighbours the halfway point goes to the even one, what lies beside it to the nearer one.
TEST_P(SmallFloats, EveryHalfwayPointRoundsToEven) {
  for (uint32_t code = 0; code < f.largest; ++code) {
    const float halfway = (values[code] + values[code + 1]) / 2;  // exact: both have few bits
    const uint32_t even = code + code % 2;
    EXPECT_EQ(f.narrow(halfway), even) << "above code " << code;
    EXPECT_EQ(f.narrow(-halfway), f.negated(even)) << "above code " << code;
    EXPECT_EQ(f.narrow(std::nextafterf(halfway, 0)), code);
    EXPECT_EQ(f.narrow(std::nextafterf(halfway, kInfinity)), code + 1);
    EXPECT_EQ(f.narrow(-std::nextafterf(halfway, 0)), f.negated(code));
  }
}

TEST_P(SmallFloats, FiniteNumbersStayFinite) {
  const float largest = values[f.largest];
  for (const float beyond : {std::nextafterf(largest, kInfinity), 1.01f * largest, 1.25f * largest,
                             2 * largest, 1e10f, std::numeric_limits<float>::max()}) {
    EXPECT_EQ(f.narrow(beyond), f.largest) << beyond;
    EXPECT_EQ(f.narrow(-beyond), f.negated(f.largest)) << beyond;
  }
  EXPECT_EQ(f.narrow(kInfinity), f.infinity);
  EXPECT_EQ(f.narrow(-kInfinity), f.negated(f.infinity));
  for (const float tiny : {std::numeric_limits<float>::denorm_min(), 1e-30f, 0.0f}) {
    EXPECT_EQ(f.narrow(tiny), 0u);
    EXPECT_EQ(f.narrow(-tiny), f.negated(0));
  }
}

TEST_P(SmallFloats, DrawnNumbersNarrowAsElsewhere) {
  const std::vector<float> drawn = numbers(f.name, "numbers");
  std::istringstream codes(table(f.name).at("codes").get<std::string>());
  ASSERT_GE(drawn.size(), 100u);
  for (const float number : drawn) {
    std::string code;
    ASSERT_TRUE(codes >> code);
    EXPECT_EQ(f.narrow(number), std::stoul(code, nullptr, 16)) << std::hexfloat << number;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, SmallFloats,
                         ::testing::Values(EightBits{"e4m3fn", &e4m3fn_to_f32, &f32_to_e4m3fn, 0x80,
                                                     0x7e, 0x7e, 5407.875},
                                           EightBits{"e4m3fnuz", &e4m3fnuz_to_f32, &f32_to_e4m3fnuz,
                                                     0x80, 0x7f, 0x7f, 2943.9375, false},
                                           EightBits{"e5m2", &e5m2_to_f32, &f32_to_e5m2, 0x80, 0x7b,
                                                     0x7c, 360448 - 0x1p-12},
                                           EightBits{"e2m1", &e2m1_to_f32, &f32_to_e2m1, 0x8, 0x7,
                                                     0x7, 18}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(SmallFloatNans, StayNan) {
  for (const uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xff800001u, 0x7fffffffu}) {
    const float nan = detail::bits_as<float>(bits);
    EXPECT_TRUE(std::isnan(e4m3fn_to_f32(f32_to_e4m3fn(nan)))) << bits;
    EXPECT_TRUE(std::isnan(e4m3fnuz_to_f32(f32_to_e4m3fnuz(nan)))) << bits;
    EXPECT_TRUE(std::isnan(e5m2_to_f32(f32_to_e5m2(nan)))) << bits;
  }
}

TEST(Exponents, EveryCodeHasItsValue) {
  const std::vector<float> values = numbers("e8m0", "values");
  ASSERT_EQ(values.size(), 256u);
  for (uint32_t code = 0; code < 256; ++code) {
    expect_same(e8m0_to_f32(static_cast<uint8_t>(code)), values[code], code);
    if (code < 255) {
      EXPECT_EQ(values[code], std::ldexp(1.0, static_cast<int>(code) - 127)) << code;
    }
  }
}

// A weight of e4m3fn on a device of e4m3fnuz: every number is twice what its new code stands for.
TEST(CodesAsFnuz, StandForHalfTheNumber) {
  for (uint32_t code = 0; code < 256; ++code) {
    const auto byte = static_cast<uint8_t>(code);
    const std::optional<uint8_t> other = e4m3fn_code_as_fnuz(byte);
    ASSERT_EQ(other.has_value(), !std::isnan(e4m3fn_to_f32(byte))) << code;
    if (!other) continue;
    EXPECT_EQ(2 * e4m3fnuz_to_f32(*other), e4m3fn_to_f32(byte)) << code;
    EXPECT_EQ(*other, code == 0x80 ? 0u : code);
  }
}

// The same byte means half as much in the format without negative zero, where both are numbers.
TEST(Exponents, TheTwoE4M3DifferByOneBias) {
  for (uint32_t code = 0; code < 256; ++code) {
    if ((code & 0x7f) == 0x7f || code == 0x80) continue;
    const auto byte = static_cast<uint8_t>(code);
    EXPECT_EQ(e4m3fn_to_f32(byte), 2 * e4m3fnuz_to_f32(byte)) << code;
  }
}

}  // namespace
}  // namespace moert
