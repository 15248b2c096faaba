// Texts of files as markup.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "report/html.hpp"

namespace {

using moert::report::escape;

#define NOT_TEXT "\xEF\xBF\xBD"

TEST(ReportEscape, Markup) {
  EXPECT_EQ(escape("<script>alert(1)</script>"), "&lt;script&gt;alert(1)&lt;/script&gt;");
  EXPECT_EQ(escape("\"a' & &amp;"), "&quot;a&#39; &amp; &amp;amp;");
  EXPECT_EQ(escape(""), "");
  EXPECT_EQ(escape("Qwen3-30B-A3B/été 模型 \xF0\x9F\x90\x8B"),
            "Qwen3-30B-A3B/été 模型 \xF0\x9F\x90\x8B");
}

TEST(ReportEscape, WhatIsNoText) {
  const struct {
    std::string_view bytes, want;
  } cases[] = {
      {"a\xFFz", "a" NOT_TEXT "z"},
      {"\x80", NOT_TEXT},
      {"\xC3", NOT_TEXT},                            // cut off
      {"\xE2\x82", NOT_TEXT NOT_TEXT},               // cut off
      {"\xC3(", NOT_TEXT "("},                       // what follows is kept
      {"\xE2\x82<", NOT_TEXT NOT_TEXT "&lt;"},       // and escaped
      {"\xC0\xBC", NOT_TEXT NOT_TEXT},               // '<', overlong
      {"\xE0\x80\xBC", NOT_TEXT NOT_TEXT NOT_TEXT},  // the same
      {"\xF0\x80\x80\xBC", NOT_TEXT NOT_TEXT NOT_TEXT NOT_TEXT},
      {"\xED\xA0\x80", NOT_TEXT NOT_TEXT NOT_TEXT},               // a surrogate
      {"\xF4\x90\x80\x80", NOT_TEXT NOT_TEXT NOT_TEXT NOT_TEXT},  // above U+10FFFF
      {"\xF5", NOT_TEXT},
      {std::string_view("a\0z", 3), "a" NOT_TEXT "z"},
      {"\x1B[31m", NOT_TEXT "[31m"},
      {"\x7F", NOT_TEXT},
      {"\xC2\x85", NOT_TEXT},      // U+0085
      {"\xE2\x80\xA8", NOT_TEXT},  // U+2028
      {"\xE2\x80\xAE"
       "x",
       NOT_TEXT "x"},              // U+202E turns what follows
      {"\xE2\x81\xA6", NOT_TEXT},  // U+2066
      {"\xEF\xB7\x90", NOT_TEXT},  // U+FDD0
      {"\xEF\xBF\xBF", NOT_TEXT},  // U+FFFF
      {"a\tb\nc\r", "a b c "},
  };
  for (const auto& [bytes, want] : cases)
    EXPECT_EQ(escape(bytes), want) << testing::PrintToString(bytes);
}

}  // namespace
