// The default runner around the experts: zero experts, average, latent rows, and what it refuses.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "unit/runtime/pieces.hpp"
#include "unit/runtime/runner_rig.hpp"

namespace moert::runtime {
namespace {

using Floats = std::vector<float>;
using Ids = std::vector<int32_t>;
using Counts = std::vector<int64_t>;

class RunnerAround : public RunnerTest {
 protected:
  void load(uint32_t part, const Floats& values, int64_t rows, int64_t cols) {
    const Stored stored(values, rows, cols);
    const moert_piece_t piece = stored.piece(part);
    ASSERT_EQ(table().load_layer(self_, &piece, &error_), MOERT_OK) << error_.message;
  }
  void finish() { ASSERT_EQ(table().finish(self_, &error_), MOERT_OK) << error_.message; }
  std::string reason(moert_code_t wanted = MOERT_OK) {
    moert_support_t support{};
    support.struct_size = sizeof support;
    EXPECT_EQ(table().supports(host(), &layer_, &support, &error_), wanted);
    return support.verdict != 0 ? "" : support.reason;
  }
};

// --- zero experts -------------------------------------------------------------------------------

// Rows are [1, 2], [3, 4] ...; expert e gives (e + 1) times its row, weights are 0.75 and 0.25.
TEST_F(RunnerAround, ZeroExpertsGiveTheRowTimesTheirWeight) {
  zero_experts_ = 2;
  layer_flags_ = MOERT_LAYER_ZERO_EXPERTS;
  build(false, 1);
  const Ids ids = {1, 4, 5, 4, 5, 2, 3, 0};
  ASSERT_EQ(forward(4, nullptr, ids.data()), MOERT_OK) << error_.message;
  const Floats factor = {0.75f * 2 + 0.25f, 1, 0.75f + 0.25f * 3, 0.75f * 4 + 0.25f};
  for (size_t t = 0; t < 4; ++t)
    for (size_t h = 0; h < 2; ++h)
      EXPECT_FLOAT_EQ(out_[2 * t + h], factor[t] * hidden_[2 * t + h]) << "token " << t;
  EXPECT_EQ(ids_, ids);
  EXPECT_EQ(weights_, (Floats{0.75f, 0.25f, 0.75f, 0.25f, 0.75f, 0.25f, 0.75f, 0.25f}));
  EXPECT_EQ(statistics(true), (Counts{1, 1, 1, 1, 2, 2}));
}

TEST_F(RunnerAround, TheOutputScaleReachesZeroExpertsButNotSharedOnes) {
  zero_experts_ = 2;
  layer_flags_ = MOERT_LAYER_ZERO_EXPERTS;
  build(true, 2);
  const Ids ids = {0, 5};
  ASSERT_EQ(forward(1, nullptr, ids.data()), MOERT_OK) << error_.message;
  EXPECT_FLOAT_EQ(out_[0], 2 * (0.75f + 0.25f) * 1 + 100);
  EXPECT_FLOAT_EQ(out_[1], 2 * (0.75f + 0.25f) * 2 + 100);
}

TEST_F(RunnerAround, PaddedRowsOfZeroExpertsStayZeroAndDoNotCount) {
  zero_experts_ = 2;
  layer_flags_ = MOERT_LAYER_ZERO_EXPERTS;
  build(true, 1);
  const Ids ids = {4, 5, 4, 5};
  const uint8_t valid[] = {0, 1};
  ASSERT_EQ(forward(2, valid, ids.data()), MOERT_OK) << error_.message;
  EXPECT_EQ(out_, (Floats{0, 0, 103, 104}));
  EXPECT_EQ(ids_, (Ids{-1, -1, 4, 5}));
  EXPECT_EQ(statistics(true), (Counts{0, 0, 0, 0, 1, 1}));
}

// The map places real experts; zero experts are everywhere.
TEST_F(RunnerAround, AnExpertMapLeavesZeroExpertsAlone) {
  zero_experts_ = 2;
  layer_flags_ = MOERT_LAYER_ZERO_EXPERTS;
  build(false, 1);
  Ids map = {3, 2, -1, 0};
  const TensorView view(map.data(), MOERT_DTYPE_I32, {kExperts, 1});
  ASSERT_EQ(table().set_expert_map(self_, view, &error_), MOERT_OK) << error_.message;
  const Ids ids = {0, 4, 2, 5, 4, 2};
  ASSERT_EQ(forward(3, nullptr, ids.data()), MOERT_OK) << error_.message;
  EXPECT_FLOAT_EQ(out_[0], (0.75f * 4 + 0.25f) * 1);
  EXPECT_FLOAT_EQ(out_[2], 0.25f * 3) << "expert 2 is elsewhere";
  EXPECT_FLOAT_EQ(out_[4], 0.75f * 5);
  EXPECT_EQ(ids_, ids);
  Ids long_map(6);
  const TensorView six(long_map.data(), MOERT_DTYPE_I32, {kExperts + 2, 1});
  EXPECT_EQ(table().set_expert_map(self_, six, &error_), MOERT_INVALID_ARGUMENT);
}

// A row that no zero expert saw is not multiplied by 0: 0 times infinity would be no number.
TEST_F(RunnerAround, NoZeroExpertNoProduct) {
  zero_experts_ = 1;
  layer_flags_ = MOERT_LAYER_ZERO_EXPERTS;
  build(false, 1);
  rows_ = {INFINITY, 2};
  const Ids ids = {0, 1};
  ASSERT_EQ(forward(1, nullptr, ids.data()), MOERT_OK) << error_.message;
  EXPECT_EQ(out_, (Floats{INFINITY, 1.25f * 2}));
}

// --- average and scales -------------------------------------------------------------------------

TEST_F(RunnerAround, AverageOfRoutedAndShared) {
  shared_scale_ = 0.5;
  layer_flags_ = MOERT_LAYER_SHARED_SCALE;
  build(true, 0.5);
  ASSERT_EQ(forward(1), MOERT_OK) << error_.message;
  EXPECT_EQ(out_, (Floats{0.5f * 1.25f + 50, 0.5f * 2.5f + 50}));
  drop();
  shared_scale_ = 0;  // with the flag, 0 is a factor
  build(true, 1);
  ASSERT_EQ(forward(1), MOERT_OK) << error_.message;
  EXPECT_EQ(out_, (Floats{1.25f, 2.5f}));
}

// --- latent rows --------------------------------------------------------------------------------

TEST_F(RunnerAround, ExpertsOfAnotherWidth) {
  for (const bool with_zero : {false, true}) {
    zero_experts_ = with_zero ? 1 : 0;
    width_ = 3;
    layer_flags_ = MOERT_LAYER_LATENT | MOERT_LAYER_OUTPUT_BIAS |
                   (with_zero ? uint32_t{MOERT_LAYER_ZERO_EXPERTS} : 0u);
    ASSERT_EQ(create(true, 2), MOERT_OK) << error_.message;
    load(MOERT_PART_LATENT_UP, {1, 0, 2, 0, 1, -1}, 2, 3);
    load(MOERT_PART_LATENT_DOWN, {1, 1, 0, 1, 2, 0}, 3, 2);
    load(MOERT_PART_OUTPUT_BIAS, {10, 20}, 2, 0);
    finish();
    const Ids ids = {1, with_zero ? 4 : 3, 0, 0};
    const uint8_t valid[] = {1, 0};
    ASSERT_EQ(forward(2, valid, ids.data()), MOERT_OK) << error_.message;
    // Row [1, 2]: down gives [3, 2, 2]; up gives [7, 0].
    const float routed = 0.75f * 2 + (with_zero ? 0 : 0.25f * 4), zero = with_zero ? 0.25f : 0;
    EXPECT_FLOAT_EQ(out_[0], 2 * routed * 7 + 10 + 100 + 2 * zero * 1);
    EXPECT_FLOAT_EQ(out_[1], 2 * routed * 0 + 20 + 100 + 2 * zero * 2);
    EXPECT_EQ(out_[2], 0) << "a padded row, whatever the bias";
    EXPECT_EQ(out_[3], 0);
    drop();
  }
}

TEST_F(RunnerAround, NormsOfWhatExpertsReadAndGive) {
  for (const uint32_t flag : {MOERT_LAYER_NORM_IN, MOERT_LAYER_NORM_OUT}) {
    layer_flags_ = flag;
    norm_eps_ = 1.5;
    ASSERT_EQ(create(false, 3), MOERT_OK) << error_.message;
    load(MOERT_PART_EXPERT_NORM, {2, -1}, 2, 0);
    finish();
    ASSERT_EQ(forward(1), MOERT_OK) << error_.message;
    // Token 0 weighs experts by 1.25 together. Before: the square mean of [1, 2] is 2.5. After: that
    // of 1.25 [1, 2].
    const double before = 1.25 / std::sqrt(2.5 + 1.5);
    const double after = 1.25 / std::sqrt(2.5 * 1.25 * 1.25 + 1.5);
    const double factor = 3 * (flag == MOERT_LAYER_NORM_IN ? before : after);
    EXPECT_NEAR(static_cast<double>(out_[0]), factor * 1 * 2, 1e-6);
    EXPECT_NEAR(static_cast<double>(out_[1]), factor * 2 * -1, 1e-6);
    drop();
  }
}

TEST_F(RunnerAround, TensorsOfTheLayerBelongBeforeFinish) {
  width_ = 3;
  layer_flags_ = MOERT_LAYER_LATENT;
  ASSERT_EQ(create(false, 1), MOERT_OK);
  load(MOERT_PART_LATENT_UP, Floats(6, 1), 2, 3);
  EXPECT_EQ(table().finish(self_, &error_), MOERT_FAILED_PRECONDITION);
  EXPECT_NE(std::string(error_.message).find("latent down was never loaded"), std::string::npos)
      << error_.message;
  load(MOERT_PART_LATENT_DOWN, Floats(6, 1), 3, 2);
  finish();
  const Stored late(Floats(6, 1), 3, 2);
  const moert_piece_t piece = late.piece(MOERT_PART_LATENT_DOWN);
  EXPECT_EQ(table().load_layer(self_, &piece, &error_), MOERT_FAILED_PRECONDITION);
  EXPECT_NE(std::string(error_.message).find("after finish"), std::string::npos) << error_.message;
}

// --- what it refuses ----------------------------------------------------------------------------

TEST_F(RunnerAround, FlagsThatItDoesNotKnow) {
  describe(false, 1);
  EXPECT_EQ(reason(), "");
  layer_.flags = 1u << 6 | 1u << 30;
  EXPECT_EQ(reason(),
            "layer flag bits " + std::to_string(1u << 6 | 1u << 30) + " are not known here");
  layer_flags_ = 1u << 6;
  EXPECT_EQ(create(false, 1), MOERT_UNIMPLEMENTED);
  EXPECT_NE(std::string(error_.message).find("flag bits 64"), std::string::npos) << error_.message;
}

TEST_F(RunnerAround, RowsOfTheRouterMustFitTheFlag) {
  zero_experts_ = 2;
  describe(false, 1);
  EXPECT_EQ(reason(), "the router has 6 experts, the layer 4");
  layer_.flags = MOERT_LAYER_ZERO_EXPERTS;
  EXPECT_EQ(reason(), "");
  routing_.num_experts = kExperts;
  EXPECT_EQ(reason(), "the router has 4 experts, the layer 4") << "a flag without such experts";
  layer_flags_ = MOERT_LAYER_ZERO_EXPERTS;
  build(false, 1);
  zero_experts_ = 0;  // logits of real experts only
  EXPECT_EQ(forward(1), MOERT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error_.message).find("logits is f32 [1, 4]"), std::string::npos)
      << error_.message;
}

TEST_F(RunnerAround, LayersThatItCannotServe) {
  describe(false, 1);
  problem_.device = {MOERT_DEVICE_KIND('c', 'u', 'd', 'a'), 0};
  EXPECT_NE(reason().find("host"), std::string::npos);
  describe(false, 1);
  layer_.routing = nullptr;
  EXPECT_EQ(reason(), "the layer is incomplete");
  width_ = kHidden + 1;
  describe(false, 1);
  EXPECT_EQ(reason(), "experts of width 3 in a layer of width 2 without a latent width");
  EXPECT_EQ(create(false, 1), MOERT_UNIMPLEMENTED);
  layer_.flags = MOERT_LAYER_LATENT;
  EXPECT_EQ(reason(), "");
  layer_.flags |= MOERT_LAYER_NORM_IN | MOERT_LAYER_NORM_OUT;
  EXPECT_NE(reason().find("only one of them"), std::string::npos) << reason();
}

}  // namespace
}  // namespace moert::runtime
