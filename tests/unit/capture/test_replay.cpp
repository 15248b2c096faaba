// Forced ids of a step's tokens from a file, and what routes as usual.
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "capture/replay.hpp"
#include "unit/capture/support.hpp"

namespace moert::capture {
namespace {

using testing::capture_info;
using testing::CaptureFolder;
using testing::write_capture;

// Layers 1 and 4; sequence 6 has positions 0 to 4, of which 2 has no decision of layer 4. An id says
// where it belongs.
class Replays : public ::testing::Test {
 protected:
  void SetUp() override {
    CaptureInfo info = capture_info(1, 64, 2);
    info.layers = {{1, 64, 2}, {4, 64, 1}};
    info.hidden_layers = 5;
    write_capture(path, info, testing::keys_of_sequence(6, 5),
                  [](RowKey key, size_t layer) -> std::optional<Decision> {
                    const auto p = static_cast<int32_t>(key.position);
                    if (layer == 1 && p == 2) return {};
                    return layer == 0 ? Decision{{10 + p, 30 + p}} : Decision{{50 + p}};
                  });
  }
  static std::vector<int32_t> ids(Replay& replay, size_t layer, const std::vector<RowKey>& keys,
                                  size_t k, const std::vector<uint8_t>& valid = {}) {
    const int32_t* ids = replay.ids(layer, keys.data(), static_cast<int64_t>(keys.size()),
                                    valid.empty() ? nullptr : valid.data());
    return {ids, ids + keys.size() * k};
  }

  const CaptureFolder folder{"replay"};
  const std::filesystem::path path = folder / "x";
  const std::vector<CapturedLayer> model = {{1, 64, 2}, {2, 16, 3}, {4, 64, 1}};
};

TEST_F(Replays, IdsFollowTheKeysNotTheOrder) {
  Replay replay(path, model);
  EXPECT_EQ(ids(replay, 0, {{6, 3}, {6, 4}, {6, 0}, {6, 1}, {6, 3}}, 2),
            (std::vector<int32_t>{13, 33, 14, 34, 10, 30, 11, 31, 13, 33}));
  EXPECT_EQ(replay.counts(0).replayed, 5);
  EXPECT_EQ(replay.counts(0).native, 0);
}

TEST_F(Replays, WhatTheFileLacksRoutesAsUsualAndIsCounted) {
  Replay replay(path, model);
  const std::vector<RowKey> keys = {{6, 1}, {6, 2}, {6, 5}, {7, 1}, {6, 3}};
  EXPECT_EQ(ids(replay, 0, keys, 2),
            (std::vector<int32_t>{11, 31, 12, 32, -1, -1, -1, -1, 13, 33}));
  EXPECT_EQ(ids(replay, 1, keys, 3), std::vector<int32_t>(15, -1)) << "a layer that the file lacks";
  EXPECT_EQ(ids(replay, 2, keys, 1), (std::vector<int32_t>{51, -1, -1, -1, 53}));
  const int64_t want[][2] = {{3, 2}, {0, 5}, {2, 3}};
  for (size_t layer = 0; layer < 3; ++layer) {
    EXPECT_EQ(replay.counts(layer).replayed, want[layer][0]);
    EXPECT_EQ(replay.counts(layer).native, want[layer][1]);
  }
}

TEST_F(Replays, PaddedRowsGetNothingAndAreNotCounted) {
  Replay replay(path, model);
  EXPECT_EQ(ids(replay, 0, {{6, 0}, {6, 1}, {0, 0}, {6, 2}}, 2, {1, 0, 0, 1}),
            (std::vector<int32_t>{10, 30, -1, -1, -1, -1, 12, 32}));
  EXPECT_EQ(replay.counts(0).replayed, 2);
  EXPECT_EQ(replay.counts(0).native, 0);
  EXPECT_EQ(ids(replay, 0, {}, 2).size(), 0u);
}

TEST_F(Replays, CountsAddUpOverSteps) {
  Replay replay(path, model);
  for (int64_t p = 0; p < 7; ++p) ids(replay, 2, {{6, p}}, 1);
  EXPECT_EQ(replay.counts(2).replayed, 4);
  EXPECT_EQ(replay.counts(2).native, 3);
}

TEST_F(Replays, AnotherModelIsRefused) {
  const auto refused = [&](std::vector<CapturedLayer> layers,
                           std::initializer_list<std::string> texts) {
    expect_error([&] { Replay(path, layers); }, Fault::input, texts);
  };
  refused({{1, 64, 2}}, {"layer 4", "no such MoE layer"});
  refused({{1, 32, 2}, {4, 64, 1}}, {"layer 1", "num_experts 64", "the model has 32"});
  refused({{1, 64, 2}, {4, 64, 2}}, {"layer 4", "top_k 1", "the model has 2"});
}

// A row of expert 0 alone is what a buffer of zeros looks like: no file can hold it, so nobody replays it.
TEST_F(Replays, ARowOfOneExpertCannotBeReplayed) {
  RowPlaces places;
  places.add({0, 0});
  places.finish();
  CaptureWriter writer(folder / "y", capture_info(1, 64, 2), places);
  const int32_t zeros[] = {0, 0};
  expect_error([&] { writer.put(0, 0, zeros); }, Fault::input, {"expert 0 stands twice"});
  writer.commit();
  Replay replay(folder / "y", {{0, 64, 2}});
  EXPECT_EQ(ids(replay, 0, {{0, 0}}, 2), (std::vector<int32_t>{-1, -1}));
}

TEST_F(Replays, ADamagedFileIsRefused) {
  std::string bytes = bytes_of(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_bytes(path, bytes);
  expect_error([&] { Replay(path, model); }, Fault::input, {"checksum"});
}

}  // namespace
}  // namespace moert::capture
