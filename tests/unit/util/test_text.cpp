// Texts for messages.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "util/text.hpp"

namespace moert {
namespace {

TEST(Shortened, EndsWithACharacter) {
  const std::string text = "a\u00e9\u20ac\U0001f600";  // 1, 2, 3 and 4 bytes
  EXPECT_EQ(shortened(text, 10), text);
  const std::vector<std::string> want = {"",
                                         "a",
                                         "a",
                                         "a\u00e9",
                                         "a\u00e9",
                                         "a\u00e9",
                                         "a\u00e9\u20ac",
                                         "a\u00e9\u20ac",
                                         "a\u00e9\u20ac",
                                         "a\u00e9\u20ac"};
  for (size_t limit = 0; limit < want.size(); ++limit)
    EXPECT_EQ(shortened(text, limit), want[limit] + "...") << limit;
  EXPECT_EQ(shortened("", 0), "");
  EXPECT_EQ(shortened("\x80\x80\x80", 2), "...") << "no text at all";
}

}  // namespace
}  // namespace moert
