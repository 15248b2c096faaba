// The order of versions.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "registry/version.hpp"

namespace moert::registry {
namespace {

// Rising; every pair is compared, in both directions.
const std::vector<std::string>& rising() {
  static const std::vector<std::string> versions = {"0.0.9",
                                                    "0.1.0",
                                                    "0.9.0",
                                                    "0.10.0",
                                                    "1.0.0-alpha",
                                                    "1.0.0-alpha.1",
                                                    "1.0.0-alpha.b",
                                                    "1.0.0-beta.2",
                                                    "1.0.0-beta.11",
                                                    "1.0.0-rc.1",
                                                    "1.0.0",
                                                    "1.0.1",
                                                    "1.2.0",
                                                    "1.10.0",
                                                    "2.0.0",
                                                    "18446744073709551615.0.0",
                                                    "18446744073709551616.0.0",
                                                    "99999999999999999999999.0.0"};
  return versions;
}

TEST(Version, EveryPair) {
  const std::vector<std::string>& versions = rising();
  for (size_t i = 0; i < versions.size(); ++i)
    for (size_t j = 0; j < versions.size(); ++j)
      EXPECT_EQ(compare_versions(versions[i], versions[j]), (i > j) - (i < j))
          << versions[i] << " against " << versions[j];
}

TEST(Version, WhatDoesNotCount) {
  EXPECT_EQ(compare_versions("1.0.0+a", "1.0.0+b"), 0);
  EXPECT_EQ(compare_versions("1.0.0-rc+a", "1.0.0-rc"), 0);
  EXPECT_EQ(compare_versions("01.0.0", "1.0.0"), 0);
}

TEST(Version, TotalForAnyText) {
  const std::vector<std::string> odd = {"", "-", "+", ".", "1", "1.", "a", "1.a.0", "-rc", "1..0"};
  for (const std::string& a : odd)
    for (const std::string& b : odd)
      EXPECT_EQ(compare_versions(a, b), -compare_versions(b, a))
          << "'" << a << "' against '" << b << "'";
}

}  // namespace
}  // namespace moert::registry
