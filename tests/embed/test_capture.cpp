// Capture and replay through moert.hpp, as an engine uses them.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>

#include <moert/moert.hpp>

namespace {

using namespace moert;

constexpr int64_t kMaxTokens = 16;

class EmbedCapture : public testing::Test {
 protected:
  EmbedCapture() {
    ModelOptions options;
    options.max_tokens = kMaxTokens;
    options.dtype = "f32";
    model_ = std::make_unique<Model>(runtime_.load(MOERT_DATA "/deepseek-v3-f32", options));
  }
  ~EmbedCapture() override {
    for (const std::string& path : made_) std::remove(path.c_str());
  }
  std::string path(const std::string& name) {
    made_.push_back(testing::TempDir() + "moert_embed_" + std::to_string(::getpid()) + "_" + name);
    return made_.back();
  }
  static std::string bytes(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  // One step of tokens whose rows follow from their identity. Gives the last layer's rows.
  std::vector<float> step(const std::vector<int64_t>& sequences,
                          const std::vector<int64_t>& positions, bool final = true,
                          const std::vector<uint8_t>& valid = {}) {
    const auto tokens = static_cast<int64_t>(sequences.size());
    const int64_t width = model_->layers().front().hidden_size;
    std::vector<float> hidden(static_cast<size_t>(tokens * width)), out(hidden.size());
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t h = 0; h < width; ++h)
        hidden[static_cast<size_t>(t * width + h)] =
            static_cast<float>((sequences[static_cast<size_t>(t)] * 7 +
                                positions[static_cast<size_t>(t)] * 31 + h * h * 13) %
                               23) /
                8 -
            1;
    StepRows rows{tokens, sequences.data(), positions.data(),
                  valid.empty() ? nullptr : valid.data(), final};
    model_->begin_step(rows);
    for (const LayerInfo& layer : model_->layers())
      model_->forward(layer.layer_id, hidden.data(), tokens, out.data());
    model_->end_step();
    return out;
  }

  Runtime runtime_;
  std::unique_ptr<Model> model_;
  std::vector<std::string> made_;
};

TEST_F(EmbedCapture, ReplayOfTheOwnCaptureGivesTheSameBits) {
  const std::string routes = path("own");
  Capture capture = model_->capture({"memory", {"ids", "weights", "margins"}, {}});
  const std::vector<float> first = step({7, 7, 9}, {0, 1, 4});
  EXPECT_EQ(capture.counts().rows, 3);
  EXPECT_EQ(capture.counts().pending, 0);
  capture.write(routes);
  model_->replay(routes);
  EXPECT_EQ(step({7, 7, 9}, {0, 1, 4}), first);
  for (const LayerInfo& layer : model_->layers()) {
    EXPECT_EQ(model_->replay_counts(layer.layer_id).replayed, 3);
    EXPECT_EQ(model_->replay_counts(layer.layer_id).native, 0);
  }
  step({7, 8}, {1, 1});
  EXPECT_EQ(model_->replay_counts(model_->layers().front().layer_id).native, 1);
  model_->replay("");
  step({8}, {2});
  EXPECT_EQ(model_->replay_counts(model_->layers().front().layer_id).replayed, 0);
}

TEST_F(EmbedCapture, SpeculationPaddingAndSeveralCapturersAtOnce) {
  const std::string memory = path("memory"), spooled = path("spooled"), plain = path("plain");
  {
    Capture a = model_->capture();
    Capture b = model_->capture({"file", {"ids"}, {{"buffer_mb", "1"}}});
    step({1, 1, 1, 5, 0}, {0, 1, 2, 3, 0}, false, {1, 1, 1, 1, 0});
    EXPECT_EQ(a.counts().pending, 4);
    EXPECT_EQ(a.counts().rows, 0);
    model_->drop(1, 1);  // two of three guesses were wrong
    model_->commit(1, 1);
    model_->drop(5, 0);
    a.write(memory);
    b.write(spooled);
    EXPECT_EQ(a.counts().rows, 1);
  }
  Capture c = model_->capture();
  step({1}, {0});
  c.write(plain);
  EXPECT_EQ(bytes(memory), bytes(plain));
  EXPECT_EQ(bytes(spooled), bytes(plain));
  EXPECT_FALSE(bytes(plain).empty());
}

// The two ends of a segment in one process; tests/capturers has two, and kills them.
TEST_F(EmbedCapture, AnotherProgramTakesWhatIsCaptured) {
  const std::string name = "embed-test-" + std::to_string(::getpid());
  EXPECT_THROW(SharedCapture{name}, Error);
  auto capture = std::make_unique<Capture>(
      model_->capture({"shared_memory", {"ids", "weights"}, {{"name", name}, {"buffer_mb", "1"}}}));
  SharedCapture reader(name);
  ASSERT_EQ(reader.layers().size(), model_->layers().size());
  EXPECT_EQ(reader.layers().front().top_k, model_->layers().front().top_k);
  EXPECT_EQ(reader.take(), 0);
  Capture memory = model_->capture({"memory", {"ids", "weights"}, {}});
  step({3, 3}, {0, 1}, false);
  EXPECT_EQ(reader.take(), 0) << "nothing is final yet";
  model_->commit(3, 1);
  model_->drop(3, 1);
  ASSERT_EQ(reader.take(), 1);
  EXPECT_EQ(reader.sequence(0), 3);
  EXPECT_EQ(reader.position(0), 0);
  EXPECT_THROW(reader.position(1), Error);
  const auto k = static_cast<size_t>(reader.layers().front().top_k);
  std::vector<int32_t> ids(k, -1);
  std::vector<float> weights(k, -1);
  ASSERT_TRUE(reader.read(0, 0, ids.data(), weights.data()));
  for (size_t j = 0; j < k; ++j) {
    EXPECT_GE(ids[j], 0);
    EXPECT_GT(weights[j], 0);
  }
  EXPECT_THROW(reader.read(0, 99, ids.data()), Error);
  EXPECT_THROW(capture->write(path("never")), Error) << "its rows are elsewhere";
  step({4}, {0});
  EXPECT_FALSE(reader.finished());
  capture.reset();
  EXPECT_FALSE(reader.finished()) << "a row still waits";
  EXPECT_EQ(reader.take(), 1);
  EXPECT_TRUE(reader.finished());
  EXPECT_EQ(reader.lost(), 0);
}

TEST_F(EmbedCapture, MistakesAreErrorsThatSayWhatToDo) {
  const auto expect = [](const char* text, auto&& body) {
    try {
      body();
      ADD_FAILURE() << "no error, expected: " << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  const int64_t layer = model_->layers().front().layer_id;
  const std::vector<float> hidden(static_cast<size_t>(model_->layers().front().hidden_size));
  std::vector<float> out(hidden.size());
  model_->forward(layer, hidden.data(), 1, out.data());  // nothing attached: no step is needed
  expect("no capturer 'memroy'", [&] { model_->capture({"memroy", {"ids"}, {}}); });
  expect("cannot capture 'idz'", [&] { model_->capture({"memory", {"idz"}, {}}); });
  expect("max_row", [&] { model_->capture({"memory", {"ids"}, {{"max_row", "5"}}}); });
  expect("missing.safetensors", [&] { model_->replay("/nowhere/missing.safetensors"); });
  expect("no capture file", [&] { model_->replay(MOERT_DATA "/olmoe-f32/golden.safetensors"); });
  Capture capture = model_->capture();
  expect("begin_step", [&] { model_->forward(layer, hidden.data(), 1, out.data()); });
  const int64_t zero = 0;
  model_->begin_step({1, &zero, &zero, nullptr, true});
  expect("end_step", [&] { capture.write(path("open")); });
  expect("end_step", [&] { model_->commit(0, 1); });
  expect("2 rows in a step of 1", [&] {
    const std::vector<float> two(2 * hidden.size());
    std::vector<float> more(two.size());
    model_->forward(layer, two.data(), 2, more.data());
  });
  model_->end_step();
  model_->drop(0, 0);  // nothing is pending
  const std::string routes = path("kept");
  step({1}, {0});
  capture.write(routes);
  model_->replay(routes);
  expect("missing.safetensors", [&] { model_->replay("/nowhere/missing.safetensors"); });
  step({1}, {0});
  EXPECT_EQ(model_->replay_counts(layer).replayed, 1) << "the failed call changed nothing";
  expect("without its rows", [&] { model_->begin_step({1, nullptr, nullptr, nullptr, true}); });
  model_.reset();
  expect("the model of this capture is gone", [&] { capture.flush(); });
}

}  // namespace
