// base64: the standard's own examples, what is refused, round trips.
// SPDX-License-Identifier: Apache-2.0
#include "capture/base64.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace moert::capture {
namespace {

using namespace std::string_literals;

TEST(Base64, OfTheStandard) {
  const std::pair<std::string, std::string> cases[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"},
                                                       {"\xff\xfe\xfb"s, "//77"}};
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(base64(bytes), text);
    std::string back, problem;
    EXPECT_TRUE(from_base64(text, &back, &problem)) << problem;
    EXPECT_EQ(back, bytes);
  }
}

TEST(Base64, RefusesWhatItWouldNotWrite) {
  for (const char* text : {"Zg", "Zg=", "Zg===", "Z", "=", "====", "Zh==", "Zm9=", "Zm 9", "Zm9v\n",
                           "Zg==Zg==", "Zm_v"}) {
    std::string bytes, problem;
    EXPECT_FALSE(from_base64(text, &bytes, &problem)) << text;
    EXPECT_FALSE(problem.empty());
  }
}

TEST(Base64, RoundTrips) {
  std::mt19937 random(3);
  for (size_t size = 0; size < 200; ++size) {
    std::string bytes(size, '\0'), back, problem;
    for (char& byte : bytes) byte = static_cast<char>(random());
    ASSERT_TRUE(from_base64(base64(bytes), &back, &problem));
    ASSERT_EQ(back, bytes);
  }
}

}  // namespace
}  // namespace moert::capture
