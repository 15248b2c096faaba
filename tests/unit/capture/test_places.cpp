// Rows' places: sorted by sequence and position, each key once, whatever the order of adding.
// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <set>

#include "unit/capture/support.hpp"

namespace moert::capture {
namespace {

std::vector<RowKey> keys_of(const RowPlaces& places) {
  std::vector<RowKey> keys;
  places.for_each([&](int64_t row, RowKey key) {
    EXPECT_EQ(row, static_cast<int64_t>(keys.size()));
    keys.push_back(key);
  });
  return keys;
}

TEST(RowPlaces, NoneIsNone) {
  RowPlaces places;
  places.finish();
  EXPECT_EQ(places.rows(), 0);
  EXPECT_EQ(places.place({0, 0}), -1);
  EXPECT_TRUE(keys_of(places).empty());
}

TEST(RowPlaces, JoinsRangesOnBothSides) {
  RowPlaces places;
  for (const int64_t p : {4, 2, 3, 9, 8, 0, 1, 3, 9}) places.add({7, p});
  places.add({-2, 5});
  places.finish();
  EXPECT_EQ(places.rows(), 8);
  EXPECT_EQ(places.place({-2, 5}), 0);
  EXPECT_EQ(places.place({7, 0}), 1);
  EXPECT_EQ(places.place({7, 4}), 5);
  EXPECT_EQ(places.place({7, 8}), 6);
  EXPECT_EQ(places.place({7, 9}), 7);
  for (const RowKey& key : {RowKey{7, 5}, RowKey{7, 7}, RowKey{7, 10}, RowKey{7, -1}, RowKey{0, 0}})
    EXPECT_EQ(places.place(key), -1);
}

TEST(RowPlaces, AgreeWithASetOfKeys) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::set<std::pair<int64_t, int64_t>> keys;
    RowPlaces places;
    for (size_t n = random() % 80; n > 0; --n) {
      const RowKey key = {static_cast<int64_t>(random() % 3) - 1,
                          static_cast<int64_t>(random() % 40)};
      keys.insert({key.sequence, key.position});
      places.add(key);
    }
    places.finish();
    ASSERT_EQ(places.rows(), static_cast<int64_t>(keys.size()));
    std::vector<RowKey> sorted;
    for (const auto& [sequence, position] : keys) sorted.push_back({sequence, position});
    ASSERT_EQ(keys_of(places), sorted) << "seed " << seed;
    for (size_t i = 0; i < sorted.size(); ++i)
      ASSERT_EQ(places.place(sorted[i]), static_cast<int64_t>(i));
    for (int64_t p = 0; p < 40; ++p)
      if (keys.count({0, p}) == 0) {
        ASSERT_EQ(places.place({0, p}), -1);
      }
  }
}

TEST(RowPlaces, CanGrowAndBeFinishedAgain) {
  RowPlaces places;
  places.add({5, 0});
  places.finish();
  places.add({1, 0});
  places.finish();
  EXPECT_EQ(places.place({5, 0}), 1);
}

TEST(RowPlaces, PositionsBeginAtZero) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  RowPlaces places;
  for (const int64_t position : {int64_t{-1}, std::numeric_limits<int64_t>::min(), kMost})
    expect_error([&] { places.add({3, position}); }, Fault::input,
                 {std::to_string(position), "sequence 3"});
  places.add({3, kMost - 1});
  places.finish();
  EXPECT_EQ(places.rows(), 1);
  EXPECT_EQ(places.place({3, kMost - 1}), 0);
}

}  // namespace
}  // namespace moert::capture
