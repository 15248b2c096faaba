// Load figures.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "capture/routes.hpp"

namespace {

using namespace moert::capture;

TEST(Routes, LoadFigures) {
  const LoadSummary load = summarize_load({1, 0, 5, 2});
  EXPECT_EQ(load.slots, 8);
  EXPECT_EQ(load.busiest, 2);
  EXPECT_DOUBLE_EQ(load.busiest_share, 5.0 / 8);
  EXPECT_DOUBLE_EQ(load.max_over_mean, 5.0 / 2);
  EXPECT_EQ(load.dead, 1);
  EXPECT_EQ(summarize_load({3, 3}).busiest, 0) << "ties go to the lower id";
  const LoadSummary none = summarize_load({0, 0});
  EXPECT_EQ(none.busiest, -1);
  EXPECT_EQ(none.max_over_mean, 0);
}

TEST(Routes, PaddedSlotsDoNotCount) {
  EXPECT_EQ(count_load({0, -1, 2, 2, -1, 0}, 3), (std::vector<int64_t>{2, 0, 2}));
}

}  // namespace
