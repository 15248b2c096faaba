// Which lines a filter lets through, and what a bad filter says.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include <moert/error.hpp>

#include "observe/log.hpp"
#include "util/file.hpp"

namespace {

using namespace moert;

std::string lines_of(const std::string& filter) {
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / "moert_log_test.txt";
  std::filesystem::remove(file);
  {
    const LogSink sink = observe::make_sink({filter, file.string()});
    sink(LogLevel::debug, "loader", "one");
    sink(LogLevel::warn, "run", "two");
    sink(LogLevel::error, "org.example", "three");
  }
  return read_text_file(file);
}

bool has(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

TEST(Log, LevelsAndAreas) {
  EXPECT_FALSE(has(lines_of("warn"), "one"));
  EXPECT_TRUE(has(lines_of("warn"), "warning run: two"));
  EXPECT_TRUE(has(lines_of("debug"), "debug loader: one"));
  EXPECT_TRUE(has(lines_of("error,loader"), "one"));
  EXPECT_FALSE(has(lines_of("error,loader"), "two"));
  EXPECT_TRUE(has(lines_of("error"), "three"));
}

TEST(Log, ABadFilterNamesTheNearestWord) {
  try {
    observe::make_sink({"dispach", ""});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::usage);
    EXPECT_TRUE(has(error.what(), "did you mean 'dispatch'")) << error.what();
  }
}

TEST(Log, AFileThatCannotBeWrittenIsAnError) {
  EXPECT_THROW(observe::make_sink({"warn", "/proc/no/such/file"}), Error);
}

}  // namespace
