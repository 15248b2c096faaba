// Captured columns: id width, absent rows, load figures.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <utility>

#include "capture/routes.hpp"

namespace {

using namespace moert::capture;

// Bugs 120, 122: 256 experts fit one byte, 257 do not (65,536 fit two, 65,537 do not), and an absent
// row is no id.
TEST(Routes, WidthFollowsTheNumberOfExperts) {
  const std::pair<int64_t, int> cases[] = {{1, 1},     {255, 1},   {256, 1},    {257, 2},
                                           {65536, 2}, {65537, 4}, {1 << 30, 4}};
  for (const auto& [experts, want] : cases) {
    LayerRoutes routes;
    routes.num_experts = experts;
    routes.top_k = 2;
    const auto last = static_cast<int32_t>(experts - 1);
    routes.ids = {last, 0, last, last};
    routes.present = {1, 0};
    const NarrowIds narrow = narrow_ids(routes);
    ASSERT_EQ(narrow.bytes_per_id, want) << experts;
    const auto width = static_cast<size_t>(narrow.bytes_per_id);
    ASSERT_EQ(narrow.data.size(), 4 * width);
    int32_t back = 0;
    for (size_t b = 0; b < width; ++b) back |= narrow.data[b] << (8 * b);
    EXPECT_EQ(back, last) << experts;
    for (size_t i = 2 * width; i < 4 * width; ++i)
      EXPECT_EQ(narrow.data[i], 0) << "an absent row holds zeros";
  }
}

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
