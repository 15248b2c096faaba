// Capturing a model on a device whose memory the host cannot read: by the host, by the device, and by both.
// SPDX-License-Identifier: Apache-2.0
#include "unit/bugs/captured.hpp"

namespace moert::runtime {
namespace {

using namespace bugs;
using capture::CaptureFile;
using capture::RowKey;

constexpr int64_t kWidth = 6, kTokens = 5;
constexpr Sizes kSizes{.experts = 8, .top_k = 3, .hidden = kWidth, .intermediate = 5, .layers = 3};
const std::vector<RowKey> kKeys = {{0, 0}, {0, 1}, {7, 0}, {7, 1}, {7, 2}};

class OnDevice : public ::testing::Test {
 protected:
  static Session& with_far() {
    static Session it{[] {
      SessionOptions options;
      options.plugin_path = {std::string(MOERT_BINARY_DIR) + "/tests/plugins/far"};
      return options;
    }()};
    return it;
  }
  // Row t of a forward goes to experts t, t + 1 and t + 2.
  void load(const std::string& runner = "far.honest", const std::string& device = "far") {
    step_.reset();
    captures_.reset();
    context_.reset();  // they are outlived by the model, whose device they use
    const fs::path folder = olmoe(kSizes).save();
    spec::Model spec = families().resolve(folder);
    spec::Tensors rules = families().tensors(spec);
    ModelSettings settings;
    settings.device = device;
    settings.max_tokens = kTokens;
    settings.dtype = MOERT_DTYPE_F32;
    settings.choice.layers["runner"] = runner;
    model_ = std::make_unique<Model>(with_far(), std::move(spec), std::move(rules), settings);
    model_->load();
    context_ = std::make_unique<ForwardContext>(*model_, kTokens);
    captures_ = std::make_unique<CaptureSet>(with_far(), *model_, kTokens);
    step_ = std::make_unique<Step>(*model_, *context_, *captures_);
  }
  const AttachedCapturer& attach(const std::string& to) {
    return captures_->attach(Captured::all(to));
  }
  void begin(int64_t tokens = kTokens, const std::vector<uint8_t>& valid = {}) {
    step_->begin({tokens, kKeys.data(), valid.empty() ? nullptr : valid.data(), true});
    const std::vector<float> rows = random_rows(tokens, kWidth, 1);
    context_->set_hidden(rows.data(), tokens);
  }
  void forward(size_t layer, const int32_t* forced = nullptr) {
    context_->forward(layer, step_->enter(layer, forced), step_->valid());
    step_->leave(layer);
  }
  void run(int64_t tokens = kTokens, const std::vector<uint8_t>& valid = {}) {
    begin(tokens, valid);
    for (size_t layer = 0; layer < 3; ++layer) forward(layer);
    step_->end();
  }
  std::vector<std::byte> file_of(const AttachedCapturer& capturer) {
    const fs::path path = fresh_folder() / "routes.safetensors";
    captures_->write(capturer, path);
    const MappedFile map(path);
    return {map.bytes().begin(), map.bytes().end()};
  }
  void expect_rows(const AttachedCapturer& capturer, const std::vector<size_t>& rows) {
    const fs::path path = fresh_folder() / "routes.safetensors";
    captures_->write(capturer, path);
    const CaptureFile file(path);
    EXPECT_EQ(file.rows(), static_cast<int64_t>(rows.size()));
    EXPECT_TRUE(file.complete());
    for (const size_t row : rows)
      for (size_t layer = 0; layer < 3; ++layer) {
        const auto first = static_cast<int32_t>(row);
        EXPECT_EQ(ids_at(file, kKeys[row], layer),
                  (std::vector<int32_t>{first, first + 1, first + 2}))
            << "row " << row << ", layer " << layer;
      }
  }
  // How often anybody waited for the device.
  static int waits() {
    const auto* candidate = with_far().registry().find(MOERT_KIND_DEVICE, "far.device");
    moert_device_info_t info{};
    info.struct_size = sizeof info;
    registry::table_of<moert_device_t>(*candidate)->info(0, &info, nullptr);
    return std::stoi(info.driver_version);
  }

  std::unique_ptr<Model> model_;
  std::unique_ptr<ForwardContext> context_;
  std::unique_ptr<CaptureSet> captures_;
  std::unique_ptr<Step> step_;
};

// Padded rows behind the tokens, in front of them, and between them.
const std::vector<std::pair<std::vector<uint8_t>, std::vector<size_t>>> kPaddings = {
    {{}, {0, 1, 2, 3, 4}},
    {{1, 1, 1, 0, 0}, {0, 1, 2}},
    {{0, 0, 1, 1, 1}, {2, 3, 4}},
    {{1, 0, 1, 0, 1}, {0, 2, 4}},
    {{0, 0, 0, 0, 0}, {}}};

TEST_F(OnDevice, HostAndDeviceCapturersGetTheSameRows) {
  for (const auto& [valid, rows] : kPaddings) {
    SCOPED_TRACE(testing::PrintToString(valid));
    load();
    const AttachedCapturer& memory = attach("memory");
    const AttachedCapturer& file = attach("file");
    const AttachedCapturer& device = attach("far.memory");
    EXPECT_FALSE(memory.on_device);
    EXPECT_TRUE(device.on_device);
    run(kTokens, valid);
    expect_rows(memory, rows);
    EXPECT_TRUE(file_of(file) == file_of(memory));
    EXPECT_TRUE(file_of(device) == file_of(memory));
  }
}

TEST_F(OnDevice, ADeviceCapturerAloneGetsThemToo) {
  for (const auto& [valid, rows] : kPaddings) {
    SCOPED_TRACE(testing::PrintToString(valid));
    load();
    const AttachedCapturer& device = attach("far.memory");
    run(kTokens, valid);
    expect_rows(device, rows);
  }
}

TEST_F(OnDevice, NothingIsWaitedForBeforeTheStepsEnd) {
  load();
  attach("far.memory");
  begin();
  const int before = waits();
  for (size_t layer = 0; layer < 3; ++layer) forward(layer);
  EXPECT_EQ(waits(), before);
  step_->end();
  EXPECT_EQ(waits(), before + 1) << "once, to see that the runners reported";
  attach("memory");
  attach("file");
  begin();
  const int with_host = waits();
  forward(0);
  const int one_layer = waits() - with_host;
  EXPECT_GE(one_layer, 1) << "rows come to the host layer by layer";
  forward(1);
  forward(2);
  step_->end();
  EXPECT_EQ(waits() - with_host, 3 * one_layer) << "for both capturers at once";
}

// How a step checks its runners is settled when it begins: there is no memory for another way later.
TEST_F(OnDevice, AHostCapturerMayLeaveAmidAStep) {
  load();
  const AttachedCapturer& memory = attach("memory");
  const AttachedCapturer& device = attach("far.memory");
  begin();
  captures_->detach(memory);
  for (size_t layer = 0; layer < 3; ++layer) forward(layer);
  step_->end();
  expect_rows(device, {0, 1, 2, 3, 4});
}

// What is found at the step's end is found before anything of the step is kept.
TEST_F(OnDevice, ASilentRunnerIsFoundAtTheEnd) {
  load("far.silent");
  const AttachedCapturer& device = attach("far.memory");
  begin(3);
  EXPECT_NO_THROW(forward(1));
  const Error error = error_of([&] { step_->end(); });
  EXPECT_EQ(error.fault(), Fault::plugin);
  expect_text(error, {"far.silent", "did not report", "row 2", "layer 1"});
  EXPECT_FALSE(step_->is_open());
  EXPECT_EQ(captures_->counts(device).rows, 0);
  run(2);
  EXPECT_EQ(captures_->counts(device).rows, 2) << "the next step is its own";
}

TEST_F(OnDevice, ASilentRunnerIsFoundAtOnceWhereTheHostReads) {
  load("far.silent");
  attach("far.memory");
  attach("memory");
  begin(3);
  const Error error = error_of([&] { forward(1); });
  EXPECT_EQ(error.fault(), Fault::plugin);
  expect_text(error, {"far.silent", "did not report", "row 2", "layer 1"});
}

TEST_F(OnDevice, ForcedIdsAreCheckedAtTheEnd) {
  const std::vector<int32_t> forced = {-1, -1, -1, 7, 6, 5, 2, 3, 4};
  for (const char* runner : {"far.honest", "far.stubborn"}) {
    load(runner);
    const AttachedCapturer& device = attach("far.memory");
    begin(3);
    {
      const std::vector<int32_t> gone = forced;  // lent for the call alone
      forward(0, gone.data());
    }
    if (runner == std::string("far.honest")) {
      EXPECT_NO_THROW(step_->end());
      EXPECT_EQ(captures_->counts(device).rows, 3);
      continue;
    }
    const Error error = error_of([&] { step_->end(); });
    EXPECT_EQ(error.fault(), Fault::plugin);
    expect_text(error, {"far.stubborn", "other experts for row 1", "layer 0"});
    EXPECT_EQ(captures_->counts(device).rows, 0);
  }
}

TEST_F(OnDevice, MemoryOfAnotherDeviceIsRefused) {
  load("auto", "cpu");
  const Error error = error_of([&] { attach("far.memory"); });
  EXPECT_EQ(error.fault(), Fault::refused);
  expect_text(error, {"far.memory", "reads memory of other devices", "cpu:0"});
}

}  // namespace
}  // namespace moert::runtime
