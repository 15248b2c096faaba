// Steps: token identity, commit and drop, chunks, replay, verify, runners that do not tell.
// SPDX-License-Identifier: Apache-2.0
#include "unit/bugs/captured.hpp"

namespace moert::runtime {
namespace {

using namespace bugs;
using capture::CaptureFile;
using capture::RowKey;

constexpr int64_t kStepWidth = 6;
constexpr Sizes kStepSizes{
    .experts = 8, .top_k = 3, .hidden = kStepWidth, .intermediate = 5, .layers = 2};

// The rows of tokens: whoever computes a token reads the same row.
std::vector<float> rows_of(const std::vector<RowKey>& keys) {
  std::vector<float> rows;
  for (const RowKey& key : keys) {
    const auto seed = static_cast<uint32_t>(key.sequence * 1000 + key.position + 1);
    const std::vector<float> row = random_rows(1, kStepWidth, seed);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

class Steps : public ::testing::Test {
 protected:
  void run(Captured& captured, const std::vector<RowKey>& keys, bool final = true) {
    captured.run(keys, rows_of(keys), {}, final);
  }
  static std::vector<std::byte> bytes(const CaptureFile& file) {
    const MappedFile map(file.path());
    return {map.bytes().begin(), map.bytes().end()};
  }
  Loaded loaded_{olmoe(kStepSizes)};
};

// However tokens are cut into steps, the file is the same.
TEST_F(Steps, ChunksBatchesAndOrderDoNotShowInTheFile) {
  const std::vector<std::vector<std::vector<RowKey>>> ways = {
      {{{0, 0}, {0, 1}, {0, 2}, {0, 3}, {5, 0}, {5, 1}}},
      {{{0, 0}, {0, 1}}, {{5, 0}, {0, 2}}, {{0, 3}, {5, 1}}},
      {{{5, 1}}, {{0, 3}}, {{0, 2}, {5, 0}, {0, 0}}, {{0, 1}}},
      // put off after two tokens, and computed again from the begin
      {{{0, 0}, {0, 1}}, {{5, 0}, {5, 1}}, {{0, 0}, {0, 1}, {0, 2}}, {{0, 3}}}};
  for (const char* to : {"memory", "file"}) {
    std::vector<std::byte> first;
    for (const auto& way : ways) {
      Captured captured(loaded_, Captured::all(to));
      for (const std::vector<RowKey>& keys : way) run(captured, keys);
      const CaptureFile file = captured.file();
      EXPECT_EQ(file.rows(), 6);
      EXPECT_TRUE(file.complete());
      if (first.empty()) first = bytes(file);
      EXPECT_TRUE(bytes(file) == first) << to << ", way " << &way - ways.data();
    }
  }
}

// Four speculative rows of which two are taken; the next step computes the third position anew.
TEST_F(Steps, RejectedRowsLeaveNoTrace) {
  for (const char* to : {"memory", "file"}) {
    Captured captured(loaded_, Captured::all(to)), plain(loaded_);
    run(captured, {{0, 0}, {0, 1}, {0, 2}, {0, 3}}, false);
    EXPECT_EQ(captured.file().rows(), 0) << "nothing is final yet";
    captured.set().drop(0, 2);
    captured.set().commit(0, 2);
    EXPECT_EQ(captured.file().rows(), 2);
    run(captured, {{0, 2}, {1, 0}}, false);
    captured.set().drop(1, 0);  // an aborted request
    captured.set().commit(0, INT64_MAX);
    captured.set().commit(1, INT64_MAX);
    run(plain, {{0, 0}, {0, 1}, {0, 2}});
    EXPECT_TRUE(bytes(captured.file()) == bytes(plain.file())) << to;
  }
}

TEST_F(Steps, MistakesAreNamed) {
  Captured captured(loaded_);
  const std::vector<RowKey> twice = {{0, 1}, {0, 0}, {0, 1}}, below = {{0, -1}};
  const auto begin = [&](const std::vector<RowKey>& keys) {
    captured.step().begin({static_cast<int64_t>(keys.size()), keys.data(), nullptr, true});
  };
  expect_text(error_of([&] { begin(twice); }), {"stands twice", "sequence 0, position 1"});
  expect_text(error_of([&] { begin(below); }), {"no position", "position -1"});
  expect_text(error_of([&] { captured.step().enter(0); }), {"no step says which tokens"});
  expect_text(error_of([&] { captured.step().end(); }), {"no step is open"});
  EXPECT_NO_THROW(captured.set().drop(0, 0)) << "nothing is pending";
  begin({{0, 0}});
  expect_text(error_of([&] { begin({{0, 1}}); }), {"a step is open"});
  const std::vector<float> rows = rows_of({{0, 0}, {0, 1}});
  loaded_.context().set_hidden(rows.data(), 2);
  expect_text(error_of([&] { captured.step().enter(1); }), {"2 rows in a step of 1", "layer 1"});
}

TEST_F(Steps, ALayerThatDidNotRunIsAbsent) {
  Captured captured(loaded_);
  const std::vector<RowKey> keys = {{3, 0}, {3, 1}};
  const std::vector<float> rows = rows_of(keys);
  captured.step().begin({2, keys.data(), nullptr, true});
  loaded_.context().set_hidden(rows.data(), 2);
  captured.step().enter(1);
  loaded_.context().forward(1);
  captured.step().leave(1);
  captured.step().end();
  const CaptureFile file = captured.file();
  EXPECT_FALSE(file.complete());
  EXPECT_EQ(file.absent(), 2);
  EXPECT_TRUE(ids_at(file, {3, 0}, 0).empty());
  EXPECT_EQ(ids_at(file, {3, 0}, 1).size(), 3u);
}

// A layer that runs again would be counted and kept twice; a step of other rows has no identity for them.
TEST_F(Steps, ALayerRunsOnceAndWithTheStepsRows) {
  Captured captured(loaded_);
  const std::vector<RowKey> keys = {{0, 0}, {0, 1}};
  const std::vector<float> rows = rows_of({{0, 0}, {0, 1}, {0, 2}});
  captured.step().begin({2, keys.data(), nullptr, true});
  loaded_.context().set_hidden(rows.data(), 2);
  loaded_.context().forward(0, captured.step().enter(0));
  captured.step().leave(0);
  expect_text(error_of([&] { captured.step().enter(0); }), {"runs twice", "layer 0"});
  captured.step().end();

  CaptureSet nothing(session(), loaded_.model(), 8);
  Step step(loaded_.model(), loaded_.context(), nothing);
  const std::vector<uint8_t> valid = {1, 0};
  step.begin({2, keys.data(), valid.data(), true});
  loaded_.context().set_hidden(rows.data(), 3);
  expect_text(error_of([&] { step.enter(0); }), {"3 rows in a step of 2"});
}

TEST_F(Steps, ACapturerThatHasNoRoomSpoilsNothingOfTheOthers) {
  Captured captured(loaded_);
  spec::Capture small = Captured::all();
  small.options["max_rows"] = "3";
  captured.set().attach(small);
  run(captured, {{0, 0}, {0, 1}});
  const std::vector<std::byte> before = bytes(captured.file());
  const Error error = error_of([&] { run(captured, {{0, 0}, {0, 1}}); });
  EXPECT_EQ(error.fault(), Fault::device);
  expect_text(error, {"capture.memory", "max_rows"});
  EXPECT_TRUE(bytes(captured.file()) == before) << "absent rows took the place of decisions";
  run(captured, {{0, 2}});
  EXPECT_EQ(captured.file().rows(), 3) << "both go on";
}

TEST_F(Steps, AStepThatOneCapturerCannotEndIsEndedInTheOthers) {
  const fs::path folder = fresh_folder();
  CaptureSet set(session(), loaded_.model(), 64);
  spec::Capture ring = Captured::all("shared_memory");
  ring.options = {{"folder", folder.string()}, {"buffer_mb", "1"}, {"when_full", "block"}};
  const AttachedCapturer& full = set.attach(ring);
  const AttachedCapturer& memory = set.attach(Captured::all());
  Step step(loaded_.model(), loaded_.context(), set);
  int64_t steps = 0;
  bool failed = false;
  for (; !failed && steps < 2000; ++steps) {
    std::vector<RowKey> keys;
    for (int64_t t = 0; t < 64; ++t) keys.push_back({steps, t});
    step.begin({64, keys.data(), nullptr, true});
    try {
      step.end();
    } catch (const Error& error) {
      failed = true;
      expect_text(error, {"capture.shared_memory", "no reader"});
    }
  }
  ASSERT_TRUE(failed);
  EXPECT_EQ(set.counts(memory).rows, 64 * steps);
  EXPECT_EQ(set.counts(full).pending, 64);
  EXPECT_FALSE(step.is_open());
  set.drop(steps - 1, 0);  // or commit, once somebody reads
  EXPECT_EQ(set.counts(full).pending, 0);
  EXPECT_NO_THROW(set.write(memory, folder / "routes.safetensors"));
}

class Replays : public Steps {
 protected:
  // Ids as they were chosen, but the first slot of every row is another expert.
  void capture_other(const fs::path& path, const std::vector<RowKey>& keys) {
    capture::RowPlaces places;
    for (const RowKey& key : keys) places.add(key);
    places.finish();
    capture::CaptureInfo info = capture_info(loaded_.model());
    capture::CaptureWriter writer(path, info, places);
    for (size_t layer = 0; layer < 2; ++layer) {
      loaded_.forward(rows_of(keys), layer);
      for (size_t t = 0; t < keys.size(); ++t) {
        std::vector<int32_t> ids = row_ids(loaded_.routing.ids, t, 3);
        while (std::count(ids.begin() + 1, ids.end(), ids[0] = (ids[0] + 1) % 8) != 0) {
        }
        writer.put(places.place(keys[t]), layer, ids.data());
      }
    }
    writer.commit();
  }
  const std::vector<RowKey> keys_ = {{0, 0}, {0, 1}, {4, 9}};
};

TEST_F(Replays, ForceWhatTheFileNamesAndLeaveTheRest) {
  const fs::path path = fresh_folder() / "other.safetensors";
  capture_other(path, keys_);
  capture::Replay replay(path, captured_layers(loaded_.spec()));
  Captured captured(loaded_);
  captured.step().set_replay(&replay);
  std::vector<RowKey> more = keys_;
  more.push_back({4, 10});
  run(captured, more);
  const CaptureFile got = captured.file();
  for (size_t layer = 0; layer < 2; ++layer) {
    for (const RowKey& key : keys_)
      EXPECT_EQ(ids_at(got, key, layer), ids_at(replay.file(), key, layer));
    loaded_.forward(rows_of({{4, 10}}), layer);
    EXPECT_EQ(ids_at(got, {4, 10}, layer), loaded_.routing.ids) << "not in the file";
    EXPECT_EQ(replay.counts(layer).replayed, 3);
    EXPECT_EQ(replay.counts(layer).native, 1);
  }
}

TEST_F(Replays, WeightsAreTheModelsOwnScoresAtTheForcedExperts) {
  const fs::path path = fresh_folder() / "other.safetensors";
  capture_other(path, keys_);
  capture::Replay replay(path, captured_layers(loaded_.spec()));
  Captured captured(loaded_);
  captured.step().set_replay(&replay);
  run(captured, keys_);
  const CaptureFile file = captured.file();
  const weights::Checkpoint& checkpoint = loaded_.model().checkpoint();
  const std::vector<float> rows = rows_of(keys_);
  for (size_t layer = 0; layer < 2; ++layer) {
    const auto* gate = static_cast<const float*>(checkpoint.data(
        *checkpoint.find("model.layers." + std::to_string(layer) + ".mlp.gate.weight")));
    for (size_t t = 0; t < keys_.size(); ++t) {
      std::vector<double> mass;  // softmax over all experts, not renormalised: OLMoE's rule
      double sum = 0;
      for (size_t e = 0; e < 8; ++e) {
        double logit = 0;
        for (size_t h = 0; h < kStepWidth; ++h)
          logit += static_cast<double>(gate[e * kStepWidth + h]) *
                   static_cast<double>(rows[t * kStepWidth + h]);
        mass.push_back(std::exp(logit));
        sum += mass.back();
      }
      std::vector<int32_t> ids(3);
      std::vector<float> weights(3);
      float margin = 0;
      ASSERT_TRUE(file.read(file.find(keys_[t]), layer, ids.data(), weights.data(), &margin));
      for (size_t j = 0; j < 3; ++j)
        EXPECT_NEAR(static_cast<double>(weights[j]), mass[static_cast<size_t>(ids[j])] / sum, 1e-6);
    }
  }
}

TEST_F(Replays, VerifyFindsTheFirstDifferenceAndChangesNothing) {
  const fs::path path = fresh_folder() / "other.safetensors";
  capture_other(path, keys_);
  capture::Replay file(path, captured_layers(loaded_.spec()));
  capture::DifferenceCounter counter(captured_layers(loaded_.spec()));
  Captured captured(loaded_), plain(loaded_);
  captured.step().set_verify(&file, &counter);
  run(captured, keys_);
  run(plain, keys_);
  EXPECT_TRUE(bytes(captured.file()) == bytes(plain.file()));
  const capture::Difference difference = counter.take();
  EXPECT_EQ(difference.rows, 3);
  ASSERT_TRUE(difference.first.has_value());
  EXPECT_EQ(difference.first->layer_id, 0);
  EXPECT_EQ(difference.first->token, (RowKey{0, 0}));
  EXPECT_TRUE(difference.first->margin.has_value());
  EXPECT_NE(difference.first->ids, difference.first->other_ids);
}

// --- runners that route inside, and what they tell -----------------------------------------------

class Runners : public ::testing::Test {
 protected:
  static Session& with_mute() {
    static Session it{[] {
      SessionOptions options;
      options.plugin_path = {std::string(MOERT_BINARY_DIR) + "/tests/plugins/mute"};
      return options;
    }()};
    return it;
  }
  void load(const std::string& runner) {
    const fs::path folder = olmoe(kStepSizes).save();
    spec::Model spec = families().resolve(folder);
    spec::Tensors rules = families().tensors(spec);
    ModelSettings settings;
    settings.device = "cpu";
    settings.max_tokens = 4;
    settings.dtype = MOERT_DTYPE_F32;
    settings.choice.layers["runner"] = runner;
    model_ = std::make_unique<Model>(with_mute(), std::move(spec), std::move(rules), settings);
    captures_ = std::make_unique<CaptureSet>(with_mute(), *model_, 4);
  }
  void run(const int32_t* forced = nullptr) {
    const std::vector<RowKey> keys = {{0, 0}, {0, 1}, {0, 2}};
    const std::vector<float> rows = rows_of(keys);
    model_->load();
    ForwardContext context(*model_, 4);
    Step step(*model_, context, *captures_);
    step.begin({3, keys.data(), nullptr, true});
    context.set_hidden(rows.data(), 3);
    context.forward(0, step.enter(0, forced));
    step.leave(0);
    step.end();
  }
  std::unique_ptr<Model> model_;
  std::unique_ptr<CaptureSet> captures_;
};

TEST_F(Runners, N114_AMonolithicRunnerIsCapturedLikeAnyOther) {
  load("mute.honest");
  AttachedCapturer& capturer = captures_->attach(Captured::all());
  run();
  const fs::path path = fresh_folder() / "routes.safetensors";
  captures_->write(capturer, path);
  const CaptureFile file(path);
  EXPECT_EQ(ids_at(file, {0, 2}, 0), (std::vector<int32_t>{2, 3, 4}));
}

TEST_F(Runners, N114_OneThatForgetsToReportIsFound) {
  load("mute.silent");
  captures_->attach(Captured::all());
  const Error error = error_of([&] { run(); });
  EXPECT_EQ(error.fault(), Fault::plugin);
  expect_text(error, {"mute.silent", "did not report", "row 2", "layer 0"});
}

TEST_F(Runners, N114_OneThatTakesNoForcedIdsIsFound) {
  const std::vector<int32_t> forced = {-1, -1, -1, 7, 6, 5, 2, 3, 4};
  for (const char* runner : {"mute.honest", "mute.stubborn"}) {
    load(runner);
    captures_->attach(Captured::all());
    if (runner == std::string("mute.honest")) {
      EXPECT_NO_THROW(run(forced.data()));
      continue;
    }
    const Error error = error_of([&] { run(forced.data()); });
    EXPECT_EQ(error.fault(), Fault::plugin);
    expect_text(error, {"mute.stubborn", "other experts for row 1"});
  }
}

TEST_F(Runners, N114_OneThatHidesItsRoutingIsRefusedBeforeWeightsAreRead) {
  load("mute.hidden");
  const Error error = error_of([&] { captures_->attach(Captured::all()); });
  EXPECT_EQ(error.fault(), Fault::refused);
  expect_text(error, {"mute.hidden", "does not show", "layers.runner"});
  expect_text(error_of([&] { require_open_routing(*model_, "replayed"); }), {"cannot be replayed"});
  EXPECT_NO_THROW(run()) << "nobody wants to know its routing";
}

}  // namespace
}  // namespace moert::runtime
