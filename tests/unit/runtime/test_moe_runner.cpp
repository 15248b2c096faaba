// The default runner: routes, computes, combines, reports; see test_runner_around.cpp for the rest.
// SPDX-License-Identifier: Apache-2.0
#include "unit/runtime/runner_rig.hpp"

namespace moert::runtime {
namespace {

TEST_F(RunnerTest, RoutesComputesAndReports) {
  build(false, 1);
  ASSERT_EQ(forward(2), MOERT_OK) << error_.message;
  // token 0: 0.75 * 1 + 0.25 * 2 = 1.25; token 1: 0.75 * 2 + 0.25 * 3 = 2.25
  EXPECT_EQ(out_, (std::vector<float>{1.25f, 2.5f, 6.75f, 9}));
  EXPECT_EQ(ids_, (std::vector<int32_t>{0, 1, 1, 2}));
  EXPECT_EQ(statistics(true), (std::vector<int64_t>{1, 2, 1, 0}));
  EXPECT_EQ(statistics(false), (std::vector<int64_t>{0, 0, 0, 0}));
  moert_runner_info_t info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(table().info(self_, &info, nullptr), MOERT_OK);
  EXPECT_EQ(info.layer_id, 5);
  EXPECT_STREQ(info.activation, "silu");
  EXPECT_STREQ(info.expert_placement, "linear");
  EXPECT_EQ(info.is_monolithic, 0u);
}

// Bug 70: the routed scale multiplies routed output only.
TEST_F(RunnerTest, OutputScaleLeavesSharedExpertsAlone) {
  build(true, 2);
  ASSERT_EQ(forward(1), MOERT_OK) << error_.message;
  EXPECT_EQ(out_, (std::vector<float>{2 * 1.25f + 100, 2 * 2.5f + 100}));
}

TEST_F(RunnerTest, PaddedRowsGetNoIdsNoOutputAndDoNotCount) {
  for (const bool with_shared : {false, true}) {
    build(with_shared, 1);
    const uint8_t valid[] = {1, 0, 1};
    ASSERT_EQ(forward(3, valid), MOERT_OK) << error_.message;
    EXPECT_EQ(ids_[2], -1);
    EXPECT_EQ(ids_[3], -1);
    EXPECT_EQ(weights_[2], 0);
    EXPECT_EQ(out_[2], 0);
    EXPECT_EQ(out_[3], 0);
    EXPECT_NE(out_[4], 0);
    EXPECT_EQ(statistics(true), (std::vector<int64_t>{1, 1, 1, 1}));
    table().destroy(self_);
    self_ = nullptr;
  }
}

// What stands in a padded row is nobody's, and never wrong.
TEST_F(RunnerTest, StaleNumbersOfPaddedRowsAreNoError) {
  build(false, 1);
  const std::vector<int32_t> forced = {0, 1, 77, -5, 3, 2};
  const std::vector<int32_t> apart = {0, 9, 1, 9, 9, 9, 9, 9, 77, 9, -5, 9,
                                      9, 9, 9, 9, 3, 9, 2, 9, 9,  9, 9,  9};
  const uint8_t valid[] = {1, 0, 1};
  token_ids_ = {5, INT64_MIN, 99};
  for (const bool lie_apart : {false, true}) {
    apart_ = lie_apart;
    ASSERT_EQ(forward(3, valid, lie_apart ? apart.data() : forced.data()), MOERT_OK)
        << error_.message;
    EXPECT_EQ(ids_, (std::vector<int32_t>{0, 1, -1, -1, 3, 2}));
    EXPECT_EQ(out_[2], 0);
    EXPECT_EQ(statistics(true), (std::vector<int64_t>{1, 1, 1, 1}));
  }
  apart_ = false;
  token_ids_[2] = 100;
  EXPECT_EQ(forward(3, valid, forced.data()), MOERT_INVALID_ARGUMENT) << "a row that is a token";
  token_ids_.clear();
  EXPECT_EQ(forward(3, valid, forced.data()), MOERT_OK) << error_.message;
  const uint8_t other[] = {0, 1, 1};
  EXPECT_EQ(forward(3, other, forced.data()), MOERT_INVALID_ARGUMENT) << "a row that is a token";
}

// Bugs 86, 88: nothing to do is no error.
TEST_F(RunnerTest, NoTokens) {
  build(true, 1);
  EXPECT_EQ(forward(0), MOERT_OK) << error_.message;
}

TEST_F(RunnerTest, ExpertMapSendsTokensToLocalCopiesAndDropsRemoteExperts) {
  build(false, 1);
  // Expert 0 has two copies (locals 3 and 2), expert 1 is elsewhere, 2 and 3 stay.
  std::vector<int32_t> map = {3, 2, -1, -1, 2, -1, -1, 3};
  const TensorView view(map.data(), MOERT_DTYPE_I32, {kExperts, 2});
  ASSERT_EQ(table().set_expert_map(self_, view, &error_), MOERT_OK) << error_.message;
  const std::vector<int32_t> forced = {0, 1, 0, 1, 3, 2};
  ASSERT_EQ(forward(3, nullptr, forced.data()), MOERT_OK) << error_.message;
  EXPECT_FLOAT_EQ(out_[0], 0.75f * 4);                    // token 0: copy 0 of expert 0 is local 3
  EXPECT_FLOAT_EQ(out_[2], 0.75f * 3 * 3);                // token 1: copy 1 is local 2
  EXPECT_FLOAT_EQ(out_[4], (0.75f * 4 + 0.25f * 3) * 5);  // token 2
  EXPECT_EQ(ids_, forced) << "reported ids stay logical";
  std::vector<int32_t> read(8, 0);
  const TensorView back(read.data(), MOERT_DTYPE_I32, {kExperts, 2});
  ASSERT_EQ(table().expert_map(self_, back, nullptr), MOERT_OK);
  EXPECT_EQ(read, (std::vector<int32_t>{3, 2, -1, -1, 2, -1, 3, -1}));
  map[0] = kExperts;
  EXPECT_EQ(table().set_expert_map(self_, view, &error_), MOERT_OUT_OF_RANGE);
}

TEST_F(RunnerTest, RefusesWhatItCannotUnderstandOrFit) {
  build(false, 1);
  flags_ = 1u << 30;
  EXPECT_EQ(forward(1), MOERT_UNIMPLEMENTED);
  flags_ = 0;
  shortage_ = 1;
  EXPECT_EQ(forward(1), MOERT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error_.message).find("workspace"), std::string::npos);
  EXPECT_EQ(table().finish(self_, &error_), MOERT_FAILED_PRECONDITION);
  EXPECT_EQ(table().forward(nullptr, nullptr, &error_), MOERT_INVALID_ARGUMENT);
}

TEST_F(RunnerTest, CreateWithoutPartsLeavesThemToTheCaller) {
  build(false, 1);
  moert_moe_parts_t parts{};
  parts.struct_size = sizeof parts;
  void* other = nullptr;
  EXPECT_EQ(table().create(host(), &layer_, &parts, nullptr, 0, &other, &error_),
            MOERT_INVALID_ARGUMENT);
  EXPECT_EQ(other, nullptr);
}

}  // namespace
}  // namespace moert::runtime
