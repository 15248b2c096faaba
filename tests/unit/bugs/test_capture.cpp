// Rows of the bug list about capturing routing: which rows, of which layers, in what shape.
// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "unit/bugs/captured.hpp"
#include "unit/bugs/family_models.hpp"

namespace moert::bugs {
namespace {

using capture::CaptureFile;
using capture::RowKey;

constexpr Sizes kThreeLayers{.experts = 8, .top_k = 2, .hidden = 6, .intermediate = 5, .layers = 3};

std::vector<RowKey> one_sequence(int64_t sequence, int64_t tokens, int64_t first = 0) {
  std::vector<RowKey> keys;
  for (int64_t t = 0; t < tokens; ++t) keys.push_back({sequence, first + t});
  return keys;
}

// 1: a family that writes top_k_experts.
TEST(Captures, N1_AnySpellingOfTopKGivesTheShape) {
  Loaded loaded(fs::path(MOERT_SOURCE_DIR) / "tests/data/gemma4-f32");
  const auto k = static_cast<size_t>(loaded.model().layer(0).routing.top_k);
  Captured captured(loaded);
  const auto ids = captured.run(one_sequence(0, 5), random_rows(5, loaded.spec().hidden_size, 1));
  const CaptureFile file = captured.file();
  ASSERT_EQ(file.info().layers.size(), loaded.model().num_layers());
  EXPECT_EQ(file.rows(), 5);
  for (size_t layer = 0; layer < ids.size(); ++layer)
    for (size_t t = 0; t < 5; ++t)
      EXPECT_EQ(ids_at(file, {0, static_cast<int64_t>(t)}, layer), row_ids(ids[layer], t, k));
  EXPECT_TRUE(file.complete());
}

TEST(Captures, N86_NoTokensAreNoRows) {
  Loaded loaded(olmoe(kThreeLayers));
  Captured captured(loaded);
  captured.run({}, {});
  const CaptureFile file = captured.file();
  EXPECT_EQ(file.rows(), 0);
  EXPECT_TRUE(file.complete());
}

// 109: two workers with 3 and 5 tokens; each keeps its own.
TEST(Captures, N109_WorkersKeepTheirOwnRows) {
  const Tiny tiny = olmoe(kThreeLayers);
  const fs::path folder = tiny.save();
  Loaded first(folder), second(folder);
  Captured one(first), two(second);
  const auto of_one = one.run(one_sequence(1, 3), random_rows(3, 6, 1));
  const auto of_two = two.run(one_sequence(2, 5), random_rows(5, 6, 2));
  const CaptureFile a = one.file(), b = two.file();
  EXPECT_EQ(a.rows(), 3);
  EXPECT_EQ(b.rows(), 5);
  for (size_t layer = 0; layer < 3; ++layer) {
    EXPECT_EQ(ids_at(a, {1, 2}, layer), row_ids(of_one[layer], 2, 2));
    EXPECT_EQ(ids_at(b, {2, 4}, layer), row_ids(of_two[layer], 4, 2));
    EXPECT_TRUE(ids_at(a, {2, 0}, layer).empty()) << "the other worker's";
  }
}

// 111: rows are found by sequence and position, however far these are, and cost nothing for the gap.
TEST(Captures, N111_PositionsAreNoSlots) {
  Loaded loaded(olmoe(kThreeLayers));
  Captured captured(loaded);
  const std::vector<RowKey> keys = {{0, 2'097'152}, {int64_t{1} << 40, 0}, {0, 15}, {-3, 262'144}};
  const auto ids = captured.run(keys, random_rows(4, 6, 3));
  const CaptureFile file = captured.file();
  ASSERT_EQ(file.rows(), 4);
  for (size_t t = 0; t < keys.size(); ++t)
    for (size_t layer = 0; layer < 3; ++layer)
      EXPECT_EQ(ids_at(file, keys[t], layer), row_ids(ids[layer], t, 2)) << t;
}

// 112: a padded batch of 8 with 5 tokens; padding behind them and between them.
TEST(Captures, N112_PaddedRowsAreNoTokens) {
  const std::vector<float> hidden = random_rows(8, 6, 4);
  for (const std::vector<uint8_t>& valid : {std::vector<uint8_t>{1, 1, 1, 1, 1, 0, 0, 0},
                                            std::vector<uint8_t>{0, 0, 1, 1, 0, 1, 1, 1}}) {
    Loaded loaded(olmoe(kThreeLayers));
    Captured captured(loaded);
    std::vector<RowKey> keys;  // padded rows all have the same key: nobody looks at it
    int64_t position = 0;
    for (const uint8_t mark : valid)
      keys.push_back(mark != 0 ? RowKey{7, position++} : RowKey{7, 0});
    const auto ids = captured.run(keys, hidden, valid);
    const CaptureFile file = captured.file();
    ASSERT_EQ(file.rows(), 5);
    EXPECT_TRUE(file.complete());
    for (size_t t = 0; t < 8; ++t)
      for (size_t layer = 0; valid[t] != 0 && layer < 3; ++layer)
        EXPECT_EQ(ids_at(file, keys[t], layer), row_ids(ids[layer], t, 2)) << t;
  }
}

// 115: a target with a draft layer behind it.
TEST(Captures, N115_DraftLayersAreNotCaptured) {
  Sizes sizes = kThreeLayers;
  Tiny tiny = deepseek(sizes, 1, 1);
  tiny.config["num_nextn_predict_layers"] = 1;
  add_experts(tiny, 3, sizes);  // of the draft
  tiny.set("model.layers.3.mlp.gate.e_score_correction_bias", {8}, std::vector<float>(8, 0));
  Loaded loaded(tiny);
  EXPECT_EQ(loaded.spec().extra_layers, 1);
  Captured captured(loaded);
  const auto ids = captured.run(one_sequence(0, 4), random_rows(4, 6, 5));
  const CaptureFile file = captured.file();
  ASSERT_EQ(file.info().layers.size(), 3u);
  EXPECT_EQ(file.info().layers.back().layer_id, 2);
  EXPECT_EQ(file.info().hidden_layers, 3);
  for (size_t t = 0; t < 4; ++t)
    EXPECT_EQ(ids_at(file, {0, static_cast<int64_t>(t)}, 0), row_ids(ids[0], t, 2));
}

// 118: two prompts of length 2 and 5 in one batch, padded on the left, then answers.
TEST(Captures, N118_EachTokenKeepsItsExpertsHoweverTheBatchIsPadded) {
  Loaded loaded(olmoe(kThreeLayers));
  const std::vector<float> prompts = random_rows(10, 6, 6);
  std::vector<RowKey> keys;
  std::vector<uint8_t> valid;
  for (int64_t sequence = 0; sequence < 2; ++sequence)
    for (int64_t t = 0; t < 5; ++t) {
      const int64_t position = t - (sequence == 0 ? 3 : 0);
      keys.push_back({sequence, std::max<int64_t>(position, 0)});
      valid.push_back(position >= 0 ? 1 : 0);
    }
  Captured captured(loaded);
  captured.run(keys, prompts, valid);
  const std::vector<float> answers = random_rows(2, 6, 7);
  captured.run({{1, 5}, {0, 2}}, answers);
  const CaptureFile file = captured.file();
  ASSERT_EQ(file.rows(), 9);
  // Each row by itself, without batch or padding.
  const auto alone = [&](const std::vector<float>& rows, size_t row) {
    std::vector<float> hidden(rows.begin() + static_cast<ptrdiff_t>(row * 6),
                              rows.begin() + static_cast<ptrdiff_t>(row * 6 + 6));
    loaded.forward(hidden, 1);
    return loaded.routing.ids;
  };
  for (size_t row = 0; row < keys.size(); ++row)
    if (valid[row] != 0) {
      EXPECT_EQ(ids_at(file, keys[row], 1), alone(prompts, row)) << row;
    }
  EXPECT_EQ(ids_at(file, {1, 5}, 1), alone(answers, 0));
  EXPECT_EQ(ids_at(file, {0, 2}, 1), alone(answers, 1));
}

}  // namespace
}  // namespace moert::bugs
