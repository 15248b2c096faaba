// Capture files written and read back: id widths, layers of different k, absent rows, order of writing.
// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include <csignal>
#include <limits>
#include <map>
#include <utility>

#include "support/safetensors_edit.hpp"
#include "unit/capture/support.hpp"

namespace moert::capture {
namespace {

using testing::capture_info;
using testing::CaptureFolder;
using testing::decision_of;
using testing::keys_of_sequence;
using testing::write_capture;

using Wanted = std::map<std::pair<RowKey, size_t>, Decision>;

// Every pair of the file against what it should hold.
void expect_holds(const CaptureFile& file, const Wanted& wanted) {
  int64_t absent = 0;
  for (int64_t row = 0; row < file.rows(); ++row)
    for (size_t layer = 0; layer < file.info().layers.size(); ++layer) {
      const auto want = wanted.find({file.key(row), layer});
      const std::optional<Decision> got = decision_of(file, row, layer);
      ASSERT_EQ(got.has_value(), want != wanted.end()) << row << " " << layer;
      ASSERT_EQ(file.present(row, layer), got.has_value());
      absent += got ? 0 : 1;
      if (!got) continue;
      ASSERT_EQ(got->ids, want->second.ids) << row << " " << layer;
      if (file.info().weights) {
        ASSERT_EQ(got->weights, want->second.weights);
      }
      ASSERT_EQ(got->margin, file.info().margins ? want->second.margin : 0.0f);
    }
  EXPECT_EQ(file.absent(), absent);
  EXPECT_EQ(file.complete(), absent == 0 && file.info().lost == 0);
}

struct Case {
  const char* name;
  std::vector<CapturedLayer> layers;
  bool weights, margins;
  int64_t rows;
  int absent_percent;
};

class Format : public ::testing::TestWithParam<Case> {};

TEST_P(Format, ReadsWhatWasWritten) {
  const Case& c = GetParam();
  const CaptureFolder folder(std::string("format_") + c.name);
  CaptureInfo info = capture_info(1, 8, 2);
  info.layers = c.layers;
  info.hidden_layers = c.layers.back().layer_id + 1;
  info.weights = c.weights;
  info.margins = c.margins;
  std::mt19937 random(17);
  std::vector<RowKey> keys;
  for (int64_t i = 0; i < c.rows; ++i) keys.push_back({i % 3 - 1, i / 3 * 2});
  Wanted wanted;
  for (const RowKey& key : keys)
    for (size_t layer = 0; layer < c.layers.size(); ++layer)
      if (static_cast<int>(random() % 100) >= c.absent_percent)
        wanted[{key, layer}] = random_decision(c.layers[layer], &random);
  const auto decide = [&](RowKey key, size_t layer) -> std::optional<Decision> {
    const auto found = wanted.find({key, layer});
    return found == wanted.end() ? std::nullopt : std::optional(found->second);
  };
  write_capture(folder / "a", info, keys, decide);
  const CaptureFile file(folder / "a");
  EXPECT_EQ(file.info(), info);
  EXPECT_EQ(file.rows(), c.rows);
  expect_holds(file, wanted);
  std::shuffle(keys.begin(), keys.end(), random);
  write_capture(folder / "b", info, keys, decide);
  EXPECT_EQ(bytes_of(folder / "a"), bytes_of(folder / "b")) << "order of writing shows in the file";
}

// The last expert is in reach of the width, and the width grows when it must. Layers of one k, or not.
const Case kCases[] = {
    {"E255", {{0, 255, 4}}, false, false, 40, 0},
    {"E256", {{0, 256, 4}, {1, 256, 4}}, true, false, 40, 20},
    {"E257", {{0, 257, 4}, {1, 8, 4}}, false, true, 40, 20},
    {"E65536", {{0, 65536, 3}}, true, true, 40, 20},
    {"E65537", {{5, 65537, 3}}, true, true, 40, 20},
    {"PerLayerK", {{1, 8, 1}, {3, 16, 5}, {4, 300, 2}}, true, true, 40, 30},
    {"NineLayers",
     {{0, 4, 2},
      {1, 4, 2},
      {2, 4, 2},
      {3, 4, 2},
      {4, 4, 2},
      {5, 4, 2},
      {6, 4, 2},
      {7, 4, 2},
      {8, 4, 2}},
     false,
     false,
     25,
     50},
    {"NoRows", {{0, 8, 2}}, true, true, 0, 0},
    {"OneRow", {{0, 8, 2}}, false, false, 1, 0},
    {"OneExpert", {{0, 1, 1}}, true, true, 3, 0},
    {"AllExperts", {{0, 70, 70}}, true, true, 6, 0},
    {"AllAbsent", {{0, 8, 2}, {1, 8, 3}}, true, true, 12, 100},
};
INSTANTIATE_TEST_SUITE_P(Shapes, Format, ::testing::ValuesIn(kCases),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(CaptureFormat, WhatWasCutShortIsNeverComplete) {
  const CaptureFolder folder("cut");
  CaptureInfo info = capture_info(1, 4, 2);
  const auto decide = [](RowKey, size_t) { return Decision{{1, 0}}; };
  write_capture(folder / "whole", info, {{0, 0}}, decide);
  EXPECT_TRUE(CaptureFile(folder / "whole").complete());
  info.cut = true;
  write_capture(folder / "cut", info, {{0, 0}}, decide);
  const CaptureFile cut(folder / "cut");
  EXPECT_TRUE(cut.info().cut);
  EXPECT_EQ(cut.absent(), 0);
  EXPECT_FALSE(cut.complete());
  const auto metadata = weights::SafetensorsFile(folder / "cut").metadata();
  EXPECT_EQ(metadata.at("cut"), "true");
  EXPECT_EQ(metadata.at("complete"), "false");
}

TEST(CaptureFormat, TensorsAreWhatThePageSays) {
  const CaptureFolder folder("tensors");
  CaptureInfo info = capture_info(9, 300, 2);
  info.weights = info.margins = true;
  info.simulated = "uniform";
  info.lost = 3;
  write_capture(folder / "x.safetensors", info, {{7, 0}, {7, 2}}, [](RowKey key, size_t layer) {
    return key.position == 0 || layer != 8 ? std::optional(Decision{{258, 1}, {0.75f, 0.25f}, 0.5f})
                                           : std::nullopt;
  });
  testing::SafetensorsEdit edit(folder / "x.safetensors");
  EXPECT_EQ(edit.names(), (std::vector<std::string>{"positions", "sequences", "margins", "weights",
                                                    "ids", "present"}));
  EXPECT_EQ(edit.at("ids").dtype, static_cast<uint32_t>(MOERT_DTYPE_U16));
  EXPECT_EQ(edit.at("ids").shape, (std::vector<int64_t>{2, 9, 2}));
  EXPECT_EQ(edit.at("weights").shape, (std::vector<int64_t>{2, 9, 2}));
  EXPECT_EQ(edit.at("margins").shape, (std::vector<int64_t>{2, 9}));
  EXPECT_EQ(edit.at("present").shape, (std::vector<int64_t>{2, 2}));
  const std::vector<std::byte> bits = {std::byte{0xff}, std::byte{1}, std::byte{0xff},
                                       std::byte{0}};
  EXPECT_EQ(edit.at("present").data, bits);
  const std::vector<std::byte> first_ids(edit.at("ids").data.begin(),
                                         edit.at("ids").data.begin() + 4);
  EXPECT_EQ(first_ids,
            (std::vector<std::byte>{std::byte{2}, std::byte{1}, std::byte{1}, std::byte{0}}));
  std::map<std::string, std::string> metadata =
      weights::SafetensorsFile(folder / "x.safetensors").metadata();
  EXPECT_EQ(metadata.at("crc32.present"), "6da74ea8") << "zlib.crc32(b'\\xff\\x01\\xff\\x00')";
  std::erase_if(metadata, [](const auto& entry) { return entry.first.starts_with("crc32."); });
  const std::map<std::string, std::string> want = {
      {"format", "moert-capture"},
      {"version", "1"},
      {"model", "tiny"},
      {"family", ""},
      {"model_digest", ""},
      {"router_digest", ""},
      {"hidden_layers", "9"},
      {"layers", "0,1,2,3,4,5,6,7,8"},
      {"num_experts", "300,300,300,300,300,300,300,300,300"},
      {"top_k", "2,2,2,2,2,2,2,2,2"},
      {"order", "token"},
      {"slot_order", "selection"},
      {"rows", "2"},
      {"absent", "1"},
      {"lost", "3"},
      {"complete", "false"},
      {"simulated", "uniform"},
      {"source", "test"}};
  EXPECT_EQ(metadata, want);
}

TEST(CaptureFormat, LayersOfDifferentKShareOneAxis) {
  const CaptureFolder folder("axis");
  CaptureInfo info = capture_info(2, 8, 1);
  info.layers[1].top_k = 3;
  write_capture(folder / "x.safetensors", info, {{0, 0}}, [](RowKey, size_t layer) {
    return Decision{layer == 0 ? std::vector<int32_t>{5} : std::vector<int32_t>{7, 0, 2}};
  });
  testing::SafetensorsEdit edit(folder / "x.safetensors");
  EXPECT_EQ(edit.at("ids").shape, (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(edit.at("ids").data,
            (std::vector<std::byte>{std::byte{5}, std::byte{7}, std::byte{0}, std::byte{2}}));
}

TEST(CaptureFormat, PutReplacesAndTakesBack) {
  const CaptureFolder folder("replace");
  CaptureInfo info = capture_info(2, 8, 2);
  info.weights = info.margins = true;
  RowPlaces places;
  places.add({0, 0});
  places.finish();
  const int32_t ids[] = {3, 4}, other[] = {7, 1};
  const float weights[] = {0.5f, 0.25f}, margin = 2;
  {
    CaptureWriter writer(folder / "x.safetensors", info, places);
    writer.put(0, 0, ids, weights, &margin);
    writer.put(0, 0, other, weights, &margin);
    writer.put(0, 1, ids, weights, &margin);
    writer.put(0, 1, nullptr);
    writer.put(0, 1, nullptr);
    writer.commit();
    EXPECT_TRUE(error_of([&] { writer.put(0, 0, ids, weights, &margin); })) << "after commit";
    EXPECT_TRUE(error_of([&] { writer.commit(); })) << "twice";
  }
  const CaptureFile file(folder / "x.safetensors");
  EXPECT_EQ(file.absent(), 1);
  EXPECT_EQ(decision_of(file, 0, 0)->ids, (std::vector<int32_t>{7, 1}));
  EXPECT_FALSE(decision_of(file, 0, 1));
  int32_t untouched = -7;
  EXPECT_FALSE(file.read(0, 1, &untouched));
  EXPECT_EQ(untouched, -7);
  write_capture(folder / "y", info, {{0, 0}}, [](RowKey, size_t layer) {
    return layer == 0 ? std::optional(Decision{{7, 1}, {0.5f, 0.25f}, 2}) : std::nullopt;
  });
  EXPECT_EQ(bytes_of(folder / "x.safetensors"), bytes_of(folder / "y"))
      << "what was taken back left traces";
}

TEST(CaptureFormat, FindsKeysAndSequences) {
  const CaptureFolder folder("find");
  const std::vector<RowKey> keys = {{-4, 0}, {-4, 1}, {0, 5}, {9, 0}, {9, 1}, {9, 7}};
  write_capture(folder / "x.safetensors", capture_info(1, 8, 1), keys,
                [](RowKey key, size_t) { return Decision{{static_cast<int32_t>(key.position)}}; });
  const CaptureFile file(folder / "x.safetensors");
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(file.find(keys[i]), static_cast<int64_t>(i));
    EXPECT_EQ(file.key(static_cast<int64_t>(i)), keys[i]);
  }
  for (const RowKey& key :
       {RowKey{-5, 0}, RowKey{-4, 2}, RowKey{0, 4}, RowKey{9, 6}, RowKey{10, 0}})
    EXPECT_EQ(file.find(key), -1);
  EXPECT_EQ(file.rows_of(-4), (std::pair<int64_t, int64_t>{0, 2}));
  EXPECT_EQ(file.rows_of(9), (std::pair<int64_t, int64_t>{3, 6}));
  EXPECT_EQ(file.rows_of(3), (std::pair<int64_t, int64_t>{3, 3}));
}

TEST(CaptureFormat, WithoutCommitTheOldFileStays) {
  const CaptureFolder folder("uncommitted");
  write_bytes(folder / "x.safetensors", "old");
  RowPlaces places;
  places.finish();
  {
    const CaptureWriter writer(folder / "x.safetensors", capture_info(1, 8, 1), places);
  }
  EXPECT_EQ(bytes_of(folder / "x.safetensors"), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(CaptureFormat, RefusesToWriteNonsense) {
  const CaptureFolder folder("nonsense");
  RowPlaces places;
  places.add({2, 3});
  places.finish();
  const auto refused = [&](const char* text, const std::function<void(CaptureInfo&)>& edit) {
    CaptureInfo info = capture_info(2, 8, 2);
    edit(info);
    expect_error([&] { CaptureWriter(folder / "x.safetensors", info, places); }, Fault::usage,
                 {text});
  };
  refused("no MoE layers", [](CaptureInfo& info) { info.layers.clear(); });
  refused("layer 0 stands after layer 0", [](CaptureInfo& info) { info.layers[1].layer_id = 0; });
  refused("-1 is no number of a layer", [](CaptureInfo& info) { info.layers[0].layer_id = -1; });
  refused("layer 1 has 0 experts", [](CaptureInfo& info) { info.layers[1].num_experts = 0; });
  refused("layer 1 has top_k 9 of 8", [](CaptureInfo& info) { info.layers[1].top_k = 9; });
  refused("layer 0 has top_k 0", [](CaptureInfo& info) { info.layers[0].top_k = 0; });
  refused("hidden_layers is 1", [](CaptureInfo& info) { info.hidden_layers = 1; });
  refused("slot_order is 'up'", [](CaptureInfo& info) { info.slot_order = "up"; });
  refused("no valid UTF-8", [](CaptureInfo& info) { info.model = "\xff"; });
  EXPECT_FALSE(std::filesystem::exists(folder / "x.safetensors"));
}

TEST(CaptureFormat, RefusesRowsThatCannotBe) {
  const CaptureFolder folder("rows");
  CaptureInfo info = capture_info(2, 8, 2);
  info.layers[1].layer_id = 6;
  info.hidden_layers = 7;
  RowPlaces places;
  places.add({2, 3});
  places.finish();
  CaptureWriter writer(folder / "x.safetensors", info, places);
  const auto put = [&](int32_t a, int32_t b) {
    return [&writer, ids = std::vector<int32_t>{a, b}] { writer.put(0, 1, ids.data()); };
  };
  const std::string place = "sequence 2, position 3), layer 6";
  expect_error(put(0, 0), Fault::input, {"expert 0 stands twice", place});
  expect_error(put(3, 8), Fault::input, {"expert 8 is out of range: the layer has 8", place});
  expect_error(put(-1, 3), Fault::input, {"expert -1 is out of range", place});
  const int32_t ids[] = {0, 1};
  expect_error([&] { writer.put(1, 0, ids); }, Fault::usage, {"row 1"});
  expect_error([&] { writer.put(-1, 0, ids); }, Fault::usage, {"row -1"});
  expect_error([&] { writer.put(0, 2, ids); }, Fault::usage, {"row 0"});
  expect_error([&] { writer.set_lost(-1); }, Fault::usage, {"-1 rows"});
  writer.commit();
  EXPECT_EQ(CaptureFile(folder / "x.safetensors").absent(), 2)
      << "a refused row leaves nothing behind";
}

// Few ids are compared pair by pair and many are sorted: each finds a twin wherever it is.
TEST(CaptureFormat, TwinsAreFoundAtEveryK) {
  const CaptureFolder folder("twins");
  RowPlaces places;
  places.add({0, 0});
  places.finish();
  for (const int64_t k : {2, 31, 32, 33, 100}) {
    CaptureWriter writer(folder / "x.safetensors", capture_info(1, 200, k), places);
    std::vector<int32_t> ids(static_cast<size_t>(k));
    std::iota(ids.rbegin(), ids.rend(), 50);
    writer.put(0, 0, ids.data());
    for (const size_t at : {size_t{1}, ids.size() / 2, ids.size() - 1}) {
      std::vector<int32_t> twin = ids;
      twin[at] = twin[at == 1 ? 0 : 1];
      if (at != 0 && twin != ids)
        expect_error([&] { writer.put(0, 0, twin.data()); }, Fault::input,
                     {"expert " + std::to_string(twin[at]) + " stands twice"});
    }
  }
}

TEST(CaptureFormat, WeightsThatAreKeptMustBeGiven) {
  const CaptureFolder folder("kept");
  CaptureInfo info = capture_info(1, 8, 1);
  info.weights = info.margins = true;
  RowPlaces places;
  places.add({0, 0});
  places.finish();
  CaptureWriter writer(folder / "x.safetensors", info, places);
  const int32_t id = 1;
  const float value = 1;
  expect_error([&] { writer.put(0, 0, &id, nullptr, &value); }, Fault::usage, {"weights"});
  expect_error([&] { writer.put(0, 0, &id, &value, nullptr); }, Fault::usage, {"margins"});
}

// Bug 125: a disk that is full is an error at the start, and nothing stays behind.
TEST(CaptureFormat, NoRoomIsAnErrorAndLeavesNothing) {
  const CaptureFolder folder("room");
  RowPlaces places;
  for (int64_t p = 0; p < 5000; ++p) places.add({0, p});
  places.finish();
  struct rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small = {4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::optional<Error> error =
      error_of([&] { CaptureWriter(folder / "x.safetensors", capture_info(4, 8, 2), places); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->fault(), Fault::device) << error->what();
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace moert::capture
