// capture.memory: its bound, and rows of a step that overtakes rows that are pending.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "capturers/rig.hpp"

namespace moert::capture::testing {
namespace {

TEST(MemoryCapturer, MaxRowsCountsPendingRowsAndRefusesWholeSteps) {
  Capturer capturer("capture.memory", {{"max_rows", "10"}});
  ASSERT_TRUE(capturer.created().ok()) << capturer.created().message;
  EXPECT_OK(capturer.step(tokens(1, 0, 4)));
  EXPECT_OK(capturer.step(tokens(2, 0, 6), false));
  const Answer full = capturer.step(tokens(3, 0, 1));
  EXPECT_EQ(full.code, MOERT_RESOURCE_EXHAUSTED);
  EXPECT_NE(full.message.find("max_rows is 10"), std::string::npos) << full.message;
  EXPECT_OK(capturer.drop(2, 5));
  EXPECT_OK(capturer.step(tokens(3, 0, 1)));
  EXPECT_OK(capturer.commit(2));
  EXPECT_EQ(capturer.read_all(3).size(), 10u);
}

// A step that commits itself is later than rows of the same tokens that are still pending: committed
// after it, those would count instead of it.
TEST(MemoryCapturer, ALaterStepComesAfterPendingRowsOfItsTokens) {
  for (const char* feature : {"capture.memory", "capture.file"}) {
    Capturer capturer(feature, {});
    ASSERT_TRUE(capturer.created().ok()) << capturer.created().message;
    EXPECT_OK(capturer.step(tokens(1, 0, 4), false));
    EXPECT_OK(capturer.step(tokens(1, 2, 2)));
    EXPECT_OK(capturer.commit(1));
    std::vector<int64_t> positions;
    for (const auto& row : capturer.read_all()) positions.push_back(row.token.position);
    EXPECT_EQ(positions, (std::vector<int64_t>{2, 3, 2, 3, 0, 1})) << feature;
  }
}

struct BadOption {
  const char* feature;
  const char* key;
  const char* value;
  moert_code_t code;
};

TEST(Capturers, WrongOptionsAreNamed) {
  const BadOption cases[] = {
      {"capture.memory", "max_rows", "-1", MOERT_INVALID_ARGUMENT},
      {"capture.memory", "max_rows", "many", MOERT_INVALID_ARGUMENT},
      {"capture.memory", "folder", "/tmp", MOERT_INVALID_ARGUMENT},
      {"capture.file", "buffer_mb", "0", MOERT_INVALID_ARGUMENT},
      {"capture.file", "buffer_mb", "1x", MOERT_INVALID_ARGUMENT},
      {"capture.file", "when_full", "wait", MOERT_INVALID_ARGUMENT},
      {"capture.file", "name", "x", MOERT_INVALID_ARGUMENT},
      {"capture.file", "folder", "/no/such/folder", MOERT_NOT_FOUND},
      {"capture.shared_memory", "name", "a/b", MOERT_INVALID_ARGUMENT},
      {"capture.shared_memory", "name", "a b", MOERT_INVALID_ARGUMENT},
      {"capture.shared_memory", "wait_ms", "-1", MOERT_INVALID_ARGUMENT},
      {"capture.shared_memory", "when_full", "", MOERT_INVALID_ARGUMENT},
      {"capture.shared_memory", "folder", "/no/such/folder", MOERT_NOT_FOUND},
  };
  for (const BadOption& bad : cases) {
    const Capturer capturer(bad.feature, {{bad.key, bad.value}});
    EXPECT_EQ(capturer.created().code, bad.code) << bad.feature << " " << bad.key << bad.value;
    const std::string named = bad.code == MOERT_NOT_FOUND ? bad.value : bad.key;
    EXPECT_NE(capturer.created().message.find(named), std::string::npos)
        << capturer.created().message;
  }
  const Capturer longest("capture.shared_memory", {{"name", std::string(65, 'x')}});
  EXPECT_EQ(longest.created().code, MOERT_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace moert::capture::testing
