// Tests that are made when the program starts, one per feature, subject and case.
// SPDX-License-Identifier: Apache-2.0
#include "suite.hpp"

#include <gtest/gtest-spi.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iostream>

namespace moert::conformance {
namespace {

struct Unsupported {
  std::string pattern, reason, place;
  int tests = 0, failed = 0;
};
std::vector<Unsupported>& unsupported() {
  static std::vector<Unsupported> list;
  return list;
}

bool matches(const char* pattern, const char* text) {
  if (*pattern == '\0') return *text == '\0';
  if (*pattern == '*')
    return matches(pattern + 1, text) || (*text != '\0' && matches(pattern, text + 1));
  return *pattern == *text && matches(pattern + 1, text + 1);
}

class Test : public testing::Test {
 public:
  explicit Test(std::function<void()> body) : body_(std::move(body)) {}
  void TestBody() override {
    const testing::TestInfo* info = testing::UnitTest::GetInstance()->current_test_info();
    const std::string name = std::string(info->test_suite_name()) + "." + info->name();
    for (Unsupported& entry : unsupported())
      if (matches(entry.pattern.c_str(), name.c_str())) return run_unsupported(entry);
    const std::string skipped = run();
    if (HasFailure())
      std::cout << "repeat: " << settings().command << " --seed " << settings().seed
                << " --gtest_filter='" << name << "'" << std::endl;
    else if (!skipped.empty())
      GTEST_SKIP() << skipped;
  }

 private:
  // Why the feature declined; empty if it did not.
  std::string run() {
    try {
      body_();
    } catch (const Skip& skip) {
      return skip.why;
    } catch (const Stop&) {
    } catch (const std::exception& e) {
      ADD_FAILURE() << "the test itself failed: " << e.what();
    }
    return {};
  }

  void run_unsupported(Unsupported& entry) {
    testing::TestPartResultArray results;
    {
      const testing::ScopedFakeTestPartResultReporter reporter(
          testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &results);
      run();
    }
    bool failed = false;
    for (int i = 0; i < results.size(); ++i) failed |= results.GetTestPartResult(i).failed();
    ++entry.tests;
    entry.failed += failed ? 1 : 0;
    if (failed) GTEST_SKIP() << "unsupported: " << entry.reason;
  }

  std::function<void()> body_;
};

std::string trimmed(std::string text) {
  const auto space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && space(text.back())) text.pop_back();
  while (!text.empty() && space(text.front())) text.erase(0, 1);
  return text;
}

}  // namespace

Settings& settings() {
  static Settings all;
  return all;
}

void stop(const std::string& message) {
  ADD_FAILURE() << message;
  throw Stop{};
}

void add(const Feature& feature, const std::string& subject, const std::string& case_name,
         std::function<void()> body) {
  const std::string suite = feature.kind_word + "/" + feature.name();
  const std::string test = case_name.empty() ? subject : subject + "/" + case_name;
  testing::RegisterTest(suite.c_str(), test.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                        [body = std::move(body)]() -> testing::Test* { return new Test(body); });
}

void read_unsupported(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error(path + ": cannot be read");
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    const std::string place = path + ":" + std::to_string(++number);
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const size_t colon = line.find(": ");
    const std::string reason = colon == std::string::npos ? "" : trimmed(line.substr(colon + 2));
    if (reason.empty()) throw std::runtime_error(place + ": '" + line + "' has no reason");
    unsupported().push_back({trimmed(line.substr(0, colon)), reason, place});
  }
}

std::string stale_unsupported() {
  std::string text;
  for (const Unsupported& entry : unsupported()) {
    if (entry.tests == 0)
      text += entry.place + ": '" + entry.pattern + "' is the name of no test\n";
    else if (entry.failed == 0)
      text += entry.place + ": '" + entry.pattern + "' passes: remove the entry\n";
  }
  return text;
}

ErrorRecord::ErrorRecord() : both_{} {
  both_.error.struct_size = sizeof both_.error;
  both_.guard.fill(0x5a);
}

void ErrorRecord::expect_filled(moert_code_t code) const {
  const moert_error_t& e = both_.error;
  EXPECT_EQ(e.code, code) << "the error record's code is not the one that was returned";
  EXPECT_NE(e.message[0], '\0') << "the error has no message";
  EXPECT_NE(std::memchr(e.message, 0, sizeof e.message), nullptr) << "the message has no end";
  EXPECT_NE(std::memchr(e.where, 0, sizeof e.where), nullptr) << "'where' has no end";
  EXPECT_EQ(e.struct_size, sizeof e);
  EXPECT_TRUE(std::all_of(both_.guard.begin(), both_.guard.end(), [](unsigned char b) {
    return b == 0x5a;
  })) << "bytes behind the error record were written";
}

void must(const char* what, const std::function<moert_code_t(moert_error_t*)>& call) {
  ErrorRecord error;
  const moert_code_t code = call(error.get());
  if (code != MOERT_OK)
    stop(std::string(what) + " failed with code " + std::to_string(code) + ": " + error.text());
}

void must_fail(const char* what, std::initializer_list<moert_code_t> codes,
               const std::function<moert_code_t(moert_error_t*)>& call) {
  std::string wanted;
  for (moert_code_t code : codes) wanted += (wanted.empty() ? "" : " or ") + std::to_string(code);
  const auto judge = [&](moert_code_t code, const char* text) {
    EXPECT_TRUE(std::find(codes.begin(), codes.end(), code) != codes.end())
        << what << ": code " << code << " (" << text << "), expected " << wanted;
  };
  ErrorRecord error;
  const moert_code_t code = call(error.get());
  judge(code, error.text());
  if (code != MOERT_OK) error.expect_filled(code);
  judge(call(nullptr), "with no error record");

  ErrorRecord small;  // of a revision that never was: must be left alone
  small.get()->struct_size = sizeof(uint32_t) * 2;
  call(small.get());
  EXPECT_EQ(small.text()[0], '\0')
      << what << ": bytes beyond the record's struct_size were written";
}

}  // namespace moert::conformance
