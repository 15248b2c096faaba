// Numbers as texts.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "report/numbers.hpp"

namespace {

using namespace moert::report;

TEST(ReportNumbers, Integers) {
  const std::pair<int64_t, const char*> cases[] = {
      {0, "0"},
      {7, "7"},
      {999, "999"},
      {1000, "1,000"},
      {65536, "65,536"},
      {1234567, "1,234,567"},
      {-999, "-999"},
      {-1000, "-1,000"},
      {std::numeric_limits<int64_t>::max(), "9,223,372,036,854,775,807"},
      {std::numeric_limits<int64_t>::min(), "-9,223,372,036,854,775,808"}};
  for (const auto& [value, want] : cases) EXPECT_EQ(integer_text(value), want);
}

TEST(ReportNumbers, ThreeDigits) {
  const std::pair<double, const char*> cases[] = {{0, "0"},
                                                  {-0.0, "0"},
                                                  {1, "1.00"},
                                                  {1.234, "1.23"},
                                                  {12.34, "12.3"},
                                                  {123.4, "123"},
                                                  {1234.4, "1,234"},
                                                  {1e6, "1,000,000"},
                                                  {0.1234, "0.123"},
                                                  {0.01234, "0.0123"},
                                                  {0.00001234, "0.0000123"},
                                                  {1.5e-9, "1.50e-09"},
                                                  {9.994, "9.99"},
                                                  {9.996, "10.0"},
                                                  {99.96, "100"},
                                                  {999.6, "1,000"},
                                                  {0.9996, "1.00"},  // rounding carries
                                                  {-2.5, "-2.50"},
                                                  {-1234.0, "-1,234"},
                                                  {NAN, "–"},
                                                  {INFINITY, "–"}};
  for (const auto& [value, want] : cases) EXPECT_EQ(number_text(value), want);
  EXPECT_FALSE(number_text(std::numeric_limits<double>::max()).empty());
}

TEST(ReportNumbers, WithUnits) {
  EXPECT_EQ(percent_text(0.1234), "12.3%");
  EXPECT_EQ(percent_text(1), "100%");
  EXPECT_EQ(percent_text(0), "0%");
  EXPECT_EQ(percent_text(NAN), "–");
  EXPECT_EQ(times_text(2.468), "2.47×");
  EXPECT_EQ(times_text(INFINITY), "–");
  EXPECT_EQ(counted(1, "row"), "1 row");
  EXPECT_EQ(counted(0, "row"), "0 rows");
  EXPECT_EQ(counted(2000, "row"), "2,000 rows");
}

TEST(ReportNumbers, Ranges) {
  const std::pair<std::vector<int64_t>, const char*> cases[] = {
      {{}, ""},
      {{3}, "3"},
      {{3, 4}, "3, 4"},
      {{3, 4, 5}, "3–5"},
      {{0, 1, 2, 7, 9, 10}, "0–2, 7, 9, 10"}};
  for (const auto& [ids, want] : cases) EXPECT_EQ(ranges_text(ids), want);
}

TEST(ReportNumbers, Coordinates) {
  const std::pair<double, const char*> cases[] = {{0, "0"},      {-0.01, "0"},    {12, "12"},
                                                  {12.04, "12"}, {12.06, "12.1"}, {-3.5, "-3.5"},
                                                  {1234, "1234"}};
  for (const auto& [value, want] : cases) EXPECT_EQ(coordinate(value), want);
}

}  // namespace
