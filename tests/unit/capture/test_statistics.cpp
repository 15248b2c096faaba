// Figures of a layer's routing, worked out by hand.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "capture/statistics.hpp"
#include "unit/capture/support.hpp"

namespace moert::capture {
namespace {

using testing::capture_info;
using testing::CaptureFolder;
using testing::keys_of_sequence;
using testing::write_capture;

// Four tokens, of which the last has no decision. Counts 3, 1, 2, 0: shares 1/2, 1/6, 1/3, 0.
TEST(Statistics, OfFourTokensByHand) {
  const CaptureFolder folder("stat_hand");
  CaptureInfo info = capture_info(1, 4, 2);
  info.layers[0].layer_id = 3;
  info.hidden_layers = 0;
  info.margins = true;
  const std::vector<std::vector<int32_t>> rows = {{0, 1}, {2, 0}, {0, 2}};
  const float margins[] = {0.5f, 0.0005f, 0.25f};
  write_capture(folder / "x", info, keys_of_sequence(0, 4),
                [&](RowKey key, size_t) -> std::optional<Decision> {
                  const auto t = static_cast<size_t>(key.position);
                  if (t == 3) return {};
                  return Decision{rows[t], {}, margins[t]};
                });
  const std::vector<LayerStatistics> all = statistics(CaptureFile(folder / "x"));
  ASSERT_EQ(all.size(), 1u);
  const LayerStatistics& s = all[0];
  EXPECT_EQ(s.layer_id, 3);
  EXPECT_EQ(s.num_experts, 4);
  EXPECT_EQ(s.top_k, 2);
  EXPECT_EQ(s.rows, 3);
  EXPECT_EQ(s.absent, 1);
  EXPECT_EQ(s.counts, (std::vector<int64_t>{3, 1, 2, 0}));
  EXPECT_EQ(s.load.slots, 6);
  EXPECT_EQ(s.load.busiest, 0);
  EXPECT_EQ(s.load.dead, 1);
  EXPECT_DOUBLE_EQ(s.load.max_over_mean, 3 / 1.5);
  EXPECT_NEAR(s.entropy, 0.5 + std::log2(6.0) / 6 + std::log2(3.0) / 3, 1e-12);
  EXPECT_DOUBLE_EQ(s.even_entropy, 2);
  ASSERT_EQ(s.pairs.size(), 2u);
  EXPECT_EQ(s.pairs[0].a, 0);
  EXPECT_EQ(s.pairs[0].b, 2);
  EXPECT_EQ(s.pairs[0].rows, 2);
  EXPECT_DOUBLE_EQ(s.pairs[0].lift, 2 * 3.0 / (3 * 2));
  EXPECT_EQ(s.pairs[1].b, 1);
  EXPECT_DOUBLE_EQ(s.pairs[1].lift, 1 * 3.0 / (3 * 1));
  ASSERT_TRUE(s.mean_margin);
  EXPECT_NEAR(*s.mean_margin, 0.7505 / 3, 1e-7);
  EXPECT_EQ(s.near_ties, 1);
}

// All experts alike: as even as can be. One expert always: no entropy.
TEST(Statistics, ExtremesOfEntropy) {
  const CaptureFolder folder("stat_entropy");
  write_capture(folder / "x", capture_info(2, 8, 1), keys_of_sequence(0, 16),
                [](RowKey key, size_t layer) {
                  return Decision{{layer == 0 ? static_cast<int32_t>(key.position % 8) : 5}};
                });
  const std::vector<LayerStatistics> all = statistics(CaptureFile(folder / "x"));
  EXPECT_DOUBLE_EQ(all[0].entropy, 3);
  EXPECT_DOUBLE_EQ(all[0].load.max_over_mean, 1);
  EXPECT_DOUBLE_EQ(all[1].entropy, 0);
  EXPECT_EQ(all[1].load.dead, 7);
  EXPECT_DOUBLE_EQ(all[1].load.max_over_mean, 8);
  EXPECT_TRUE(all[0].pairs.empty()) << "k is 1";
  EXPECT_FALSE(all[0].mean_margin);
}

TEST(Statistics, NothingRecordedIsNoNumber) {
  const CaptureFolder folder("stat_none");
  for (const int64_t rows : {0, 3}) {
    write_capture(folder / "x", capture_info(1, 4, 2), keys_of_sequence(0, rows),
                  [](RowKey, size_t) -> std::optional<Decision> { return {}; });
    const LayerStatistics s = statistics(CaptureFile(folder / "x")).at(0);
    EXPECT_EQ(s.rows, 0);
    EXPECT_EQ(s.absent, rows);
    EXPECT_EQ(s.entropy, 0);
    EXPECT_EQ(s.load.busiest, -1);
    EXPECT_TRUE(s.pairs.empty());
  }
}

TEST(Statistics, MarginsThatAreNoNumbersDoNotSpoilTheMean) {
  const CaptureFolder folder("stat_margins");
  CaptureInfo info = capture_info(1, 2, 2);
  info.margins = true;
  const float margins[] = {std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN(), 0.25f, -0.5f};
  write_capture(folder / "x", info, keys_of_sequence(0, 4),
                [&](RowKey key, size_t) { return Decision{{0, 1}, {}, margins[key.position]}; });
  const LayerStatistics s = statistics(CaptureFile(folder / "x")).at(0);
  EXPECT_DOUBLE_EQ(s.mean_margin.value(), -0.125);
  EXPECT_EQ(s.near_ties, 0) << "neither a forced row below the best ones nor no number is a tie";
}

TEST(Statistics, OfOneSequence) {
  const CaptureFolder folder("stat_sequence");
  std::vector<RowKey> keys = keys_of_sequence(1, 3);
  for (const RowKey& key : keys_of_sequence(4, 5)) keys.push_back(key);
  write_capture(folder / "x", capture_info(1, 8, 1), keys,
                [](RowKey key, size_t) { return Decision{{static_cast<int32_t>(key.sequence)}}; });
  const CaptureFile file(folder / "x");
  StatisticsOptions options;
  options.sequence = 4;
  EXPECT_EQ(statistics(file, options).at(0).counts, (std::vector<int64_t>{0, 0, 0, 0, 5, 0, 0, 0}));
  options.sequence = 2;
  EXPECT_EQ(statistics(file, options).at(0).rows, 0);
}

// Against counting as one would on paper, with a table of pairs (few experts) and without (many).
TEST(Statistics, AgreeWithPlainCounting) {
  for (const int64_t experts : {6, 1025}) {
    const CaptureFolder folder("stat_plain");
    const CapturedLayer layer = {0, experts, 3};
    std::mt19937 random(5);
    std::vector<std::vector<int32_t>> rows;
    for (int i = 0; i < 2500; ++i) {  // more than one block of rows
      rows.push_back(random_ids(6, layer.top_k, &random));
      if (experts > 6) rows.back().back() = 1024 - rows.back().back();
    }
    write_capture(
        folder / "x", capture_info(1, experts, 3), keys_of_sequence(0, 2500),
        [&](RowKey key, size_t) { return Decision{rows[static_cast<size_t>(key.position)]}; });
    std::map<std::pair<int64_t, int64_t>, int64_t> pairs;
    std::vector<int64_t> counts(static_cast<size_t>(experts));
    for (const std::vector<int32_t>& row : rows)
      for (const int32_t a : row) {
        ++counts[static_cast<size_t>(a)];
        for (const int32_t b : row)
          if (a < b) ++pairs[{a, b}];
      }
    StatisticsOptions options;
    options.pairs = 1000;
    const LayerStatistics s = statistics(CaptureFile(folder / "x"), options).at(0);
    EXPECT_EQ(s.counts, counts);
    ASSERT_EQ(s.pairs.size(), pairs.size());
    for (size_t i = 0; i < s.pairs.size(); ++i) {
      const ExpertPair& pair = s.pairs[i];
      EXPECT_EQ(pair.rows, (pairs.at({pair.a, pair.b})));
      if (i == 0) continue;
      const ExpertPair& before = s.pairs[i - 1];
      EXPECT_TRUE(
          before.rows > pair.rows ||
          (before.rows == pair.rows && std::pair(before.a, before.b) < std::pair(pair.a, pair.b)));
    }
  }
}

TEST(Statistics, PairsAreNotCountedUnlessAskedFor) {
  const CaptureFolder folder("stat_nopairs");
  write_capture(folder / "x", capture_info(1, 4, 2), keys_of_sequence(0, 2),
                [](RowKey, size_t) { return Decision{{0, 1}}; });
  StatisticsOptions options;
  options.pairs = 0;
  EXPECT_TRUE(statistics(CaptureFile(folder / "x"), options).at(0).pairs.empty());
}

TEST(Statistics, MoreExpertsThanCanBeCountedAreRefused) {
  const CaptureFolder folder("stat_huge");
  write_capture(folder / "x", capture_info(1, std::numeric_limits<int32_t>::max(), 1), {},
                [](RowKey, size_t) -> std::optional<Decision> { return {}; });
  const CaptureFile file(folder / "x");
  expect_error([&] { statistics(file); }, Fault::input, {"2147483647 experts"});
  // Not by one layer, but by all of them.
  write_capture(folder / "y", capture_info(300, 1 << 16, 1), {},
                [](RowKey, size_t) -> std::optional<Decision> { return {}; });
  const CaptureFile many(folder / "y");
  expect_error([&] { statistics(many); }, Fault::input, {"19660800 experts"});
}

}  // namespace
}  // namespace moert::capture
