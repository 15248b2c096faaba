// Two routings compared: by hand, and against a plain account on random rows.
// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <map>
#include <set>

#include "capture/difference.hpp"
#include "unit/capture/support.hpp"

namespace moert::capture {
namespace {

using testing::capture_info;
using testing::CaptureFolder;
using testing::decision_of;
using testing::keys_of_sequence;
using testing::write_capture;

TEST(Differences, ByHand) {
  DifferenceCounter counter({{3, 8, 2}}, 0.01);
  const int32_t ids[] = {1, 2}, swapped[] = {2, 1}, one[] = {1, 5}, none[] = {6, 7};
  const float small = 0.001f, large = 0.5f, no_number = std::numeric_limits<float>::quiet_NaN();
  counter.add(0, 0, {0, 0}, ids, ids, &small);
  counter.add(0, 1, {0, 1}, ids, swapped, &small);
  counter.add(0, 2, {0, 2}, ids, one, &small);
  counter.add(0, 3, {0, 3}, ids, none, &large);
  counter.add(0, 4, {0, 4}, ids, nullptr, nullptr);
  counter.add(0, 5, {0, 5}, nullptr, ids, nullptr);
  counter.add(0, 6, {0, 6}, nullptr, nullptr, nullptr);
  counter.add(0, 7, {0, 7}, one, ids, nullptr);
  counter.add(0, 8, {0, 8}, one, ids, &no_number);
  const float forced = -0.001f;
  counter.add(0, 9, {0, 9}, one, ids, &forced);
  const Difference result = counter.take();
  const LayerDifference& layer = result.layers.at(0);
  EXPECT_EQ(layer.layer_id, 3);
  EXPECT_EQ(layer.rows, 7);
  EXPECT_EQ(layer.only_one, 2);
  EXPECT_EQ(layer.reordered, 1);
  EXPECT_EQ(layer.flipped, 5);
  EXPECT_EQ(layer.exchanged, 1 + 2 + 1 + 1 + 1);
  EXPECT_EQ(layer.with_margin, 2) << "of no number and of forced experts nothing is known";
  EXPECT_EQ(layer.near_ties, 1);
  EXPECT_DOUBLE_EQ(layer.jaccard, 1 + 1 + 1 / 3.0 + 0 + 1 / 3.0 + 1 / 3.0 + 1 / 3.0);
  EXPECT_EQ(result.rows, 7);
  EXPECT_EQ(result.rows_flipped, 5);
  EXPECT_EQ(result.decisions_alone(), 2);
  EXPECT_FALSE(result.proven());
  ASSERT_TRUE(result.first);
  EXPECT_FALSE(result.same());
  EXPECT_EQ(result.first->token, (RowKey{0, 1}));
  EXPECT_EQ(result.first->ids, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(result.first->other_ids, (std::vector<int32_t>{2, 1}));
  EXPECT_EQ(result.first->margin, small);
}

TEST(Differences, TheSameIsTheSame) {
  DifferenceCounter counter({{0, 8, 1}});
  const int32_t id = 3;
  counter.add(0, 0, {0, 0}, &id, &id, nullptr);
  counter.add(0, 1, {0, 1}, &id, nullptr, nullptr);
  const Difference result = counter.take();
  EXPECT_TRUE(result.same());
  EXPECT_FALSE(result.proven()) << "a decision is in one of the two only";
  EXPECT_EQ(result.rows_flipped, 0);
  EXPECT_EQ(result.layers[0].jaccard, 1);
}

TEST(Differences, LayersOfOneFileAreNamedAndNothingIsProven) {
  const CaptureFolder folder("difference_layers");
  const auto decide = [](RowKey, size_t) { return Decision{{1, 0}}; };
  CaptureInfo all = capture_info(4, 8, 2), some = all;
  some.layers = {all.layers[0], all.layers[2]};
  write_capture(folder / "all", all, keys_of_sequence(0, 2), decide);
  write_capture(folder / "some", some, keys_of_sequence(0, 2), decide);
  const CaptureFile a(folder / "all"), b(folder / "some");
  for (const Difference& result : {difference(a, b), difference(b, a)}) {
    EXPECT_TRUE(result.same());
    EXPECT_EQ(result.layers_alone,
              (std::vector<int64_t>{all.layers[1].layer_id, all.layers[3].layer_id}));
    EXPECT_FALSE(result.proven());
  }
  EXPECT_TRUE(difference(a, a).proven());
}

// The first divergence is that of the lowest layer, whether rows or layers come first.
TEST(Differences, TheFirstIsOfTheLowestLayer) {
  const int32_t a = 1, b = 2;
  for (const bool rows_first : {true, false}) {
    DifferenceCounter counter({{5, 8, 1}, {6, 8, 1}});
    const auto add = [&](size_t layer, int64_t row) {
      const bool differs = layer == 1 || row >= 2;
      counter.add(layer, row, {9, row}, &a, differs ? &b : &a, nullptr);
    };
    for (int64_t i = 0; i < 4; ++i)
      for (int64_t j = 0; j < 2; ++j)
        rows_first ? add(static_cast<size_t>(j), i)
                   : add(static_cast<size_t>(i / 2), i % 2 * 2 + j);
    const Difference result = counter.take();
    ASSERT_TRUE(result.first);
    EXPECT_EQ(result.first->layer_id, 5);
    EXPECT_EQ(result.first->token, (RowKey{9, 2}));
    EXPECT_FALSE(result.first->margin);
    EXPECT_EQ(result.rows, 4);
    EXPECT_EQ(result.rows_flipped, 4);
  }
}

// What `difference` counts, counted with sets and maps.
Difference plain(const CaptureFile& a, const CaptureFile& b, double near_tie) {
  Difference result;
  std::set<std::pair<int64_t, int64_t>> compared, flipped;
  for (size_t i = 0; i < a.info().layers.size(); ++i) {
    const CapturedLayer& layer = a.info().layers[i];
    const auto twin = std::find(b.info().layers.begin(), b.info().layers.end(), layer);
    if (twin == b.info().layers.end()) continue;
    const auto j = static_cast<size_t>(twin - b.info().layers.begin());
    LayerDifference into{.layer_id = layer.layer_id};
    std::set<RowKey> keys;
    for (int64_t r = 0; r < a.rows(); ++r) keys.insert(a.key(r));
    for (int64_t r = 0; r < b.rows(); ++r) keys.insert(b.key(r));
    for (const RowKey& key : keys) {
      const int64_t in_a = a.find(key), in_b = b.find(key);
      const auto x = in_a < 0 ? std::nullopt : decision_of(a, in_a, i);
      const auto y = in_b < 0 ? std::nullopt : decision_of(b, in_b, j);
      into.only_one += x.has_value() != y.has_value() ? 1 : 0;
      if (!x || !y) continue;
      ++into.rows;
      compared.insert({key.sequence, key.position});
      const std::set<int32_t> one(x->ids.begin(), x->ids.end()), two(y->ids.begin(), y->ids.end());
      std::set<int32_t> either = one;
      either.insert(two.begin(), two.end());
      const size_t both = one.size() + two.size() - either.size();
      into.jaccard += static_cast<double>(both) / static_cast<double>(either.size());
      into.exchanged += static_cast<int64_t>(one.size() - both);
      if (one != two) {
        ++into.flipped;
        flipped.insert({key.sequence, key.position});
        if (a.info().margins) {
          ++into.with_margin;
          into.near_ties += static_cast<double>(x->margin) < near_tie ? 1 : 0;
        }
      }
      into.reordered += one == two && x->ids != y->ids ? 1 : 0;
      if (x->ids != y->ids && !result.first)
        result.first = {layer.layer_id, key, x->ids, y->ids, {}};
    }
    result.layers.push_back(into);
  }
  result.rows = static_cast<int64_t>(compared.size());
  result.rows_flipped = static_cast<int64_t>(flipped.size());
  return result;
}

void expect_equal(const Difference& got, const Difference& want) {
  ASSERT_EQ(got.layers.size(), want.layers.size());
  for (size_t i = 0; i < got.layers.size(); ++i) {
    const LayerDifference &x = got.layers[i], &y = want.layers[i];
    EXPECT_EQ(x.layer_id, y.layer_id);
    EXPECT_EQ(x.rows, y.rows);
    EXPECT_EQ(x.only_one, y.only_one);
    EXPECT_EQ(x.flipped, y.flipped);
    EXPECT_EQ(x.reordered, y.reordered);
    EXPECT_EQ(x.exchanged, y.exchanged);
    EXPECT_EQ(x.with_margin, y.with_margin);
    EXPECT_EQ(x.near_ties, y.near_ties);
    EXPECT_NEAR(x.jaccard, y.jaccard, 1e-9);
  }
  EXPECT_EQ(got.rows, want.rows);
  EXPECT_EQ(got.rows_flipped, want.rows_flipped);
  ASSERT_EQ(got.first.has_value(), want.first.has_value());
  if (!got.first) return;
  EXPECT_EQ(got.first->layer_id, want.first->layer_id);
  EXPECT_EQ(got.first->token, want.first->token);
  EXPECT_EQ(got.first->ids, want.first->ids);
  EXPECT_EQ(got.first->other_ids, want.first->other_ids);
}

TEST(Differences, AgreeWithAPlainAccount) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const CaptureFolder folder("difference");
    std::mt19937 random(seed);
    std::map<std::pair<RowKey, int64_t>, Decision> shared;  // by key and layer id
    const auto write = [&](const char* name, std::vector<CapturedLayer> layers) {
      CaptureInfo info = capture_info(1, 5, 2);
      info.layers = std::move(layers);
      info.hidden_layers = 0;
      info.margins = seed % 2 == 0;
      std::vector<RowKey> keys;
      for (int64_t s = 0; s < 3; ++s)
        for (int64_t p = 0; p < 6; ++p)
          if (random() % 4 != 0) keys.push_back({s, p});
      write_capture(
          folder / name, info, keys, [&](RowKey key, size_t layer) -> std::optional<Decision> {
            if (random() % 8 == 0) return {};
            Decision drawn = random_decision(info.layers[layer], &random);
            const auto [at, fresh] = shared.try_emplace({key, info.layers[layer].layer_id}, drawn);
            return fresh || random() % 3 != 0 ? at->second : drawn;
          });
    };
    write("a", {{0, 5, 2}, {1, 5, 2}, {4, 9, 3}});
    write("b", {{1, 5, 2}, {2, 5, 2}, {4, 9, 3}, {7, 5, 1}});
    const CaptureFile a(folder / "a"), b(folder / "b");
    expect_equal(difference(a, b, 0.005), plain(a, b, 0.005));
    EXPECT_TRUE(difference(a, a).same());
  }
}

TEST(Differences, ModelsMustBeAlikeInWhatTheyShare) {
  const CaptureFolder folder("difference_models");
  const auto write = [&](const char* name, std::vector<CapturedLayer> layers) {
    CaptureInfo info = capture_info(1, 8, 2);
    info.layers = std::move(layers);
    info.hidden_layers = 0;
    write_capture(folder / name, info, {}, [](RowKey, size_t) { return Decision{}; });
    return CaptureFile(folder / name);
  };
  const CaptureFile a = write("a", {{0, 8, 2}, {1, 8, 2}});
  expect_error([&] { difference(a, write("b", {{1, 16, 2}})); }, Fault::input,
               {"layer 1 has 8 experts", "16"});
  expect_error([&] { difference(a, write("b", {{1, 8, 1}})); }, Fault::input, {"top_k 2"});
  expect_error([&] { difference(a, write("b", {{2, 8, 2}})); }, Fault::input,
               {"no layer in common"});
  EXPECT_EQ(difference(a, write("b", {{1, 8, 2}, {2, 9, 1}})).layers.size(), 1u);
}

}  // namespace
}  // namespace moert::capture
