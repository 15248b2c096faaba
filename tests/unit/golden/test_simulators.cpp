// The folders of tests/data on the simulated GPUs: numbers, the processor's choices, and capture in every way, held
// against the processor's.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "capture/capture_file.hpp"
#include "unit/golden/numbers.hpp"

namespace moert::golden {
namespace {

struct Case {
  std::string folder, word;  // "sim32"
};

runtime::Session& with_simulators() {
  static runtime::Session it{[] {
    runtime::SessionOptions options;
    options.threads = 2;
    options.plugin_path = {std::string(MOERT_BINARY_DIR) + "/lib/moert/test-plugins"};
    return options;
  }()};
  return it;
}

spec::Run simulated_run(const Case& c) {
  spec::Run run = plain_run(c.folder, c.word + ".experts");
  run.device = c.word + ":0";
  run.layers["router"] = c.word + ".router";
  run.layers["shared_experts"] = c.word + ".shared";
  run.layers["runner"] = c.word + ".runner";
  return run;
}

spec::Capture capture_to(const std::string& to, const fs::path& path,
                         const std::vector<std::string>& what) {
  spec::Capture wanted;
  wanted.to = to;
  wanted.path = path;
  wanted.what = what;
  return wanted;
}

const std::vector<std::string> kAll = {"ids", "weights", "margins"};

// Numbers of an f64 sum that was rounded to f32: in another order it may be the next one. NaN is like nothing.
bool alike(float got, float want) {
  if (got == want) return true;  // infinities too
  const auto difference = std::fabs(static_cast<double>(got) - static_cast<double>(want));
  return difference <= kF32Tolerance * std::max(1.0, std::fabs(static_cast<double>(want)));
}

// Captures of two devices: the same rows and ids, and numbers as near as f32 allows.
void expect_alike(const capture::CaptureFile& got, const capture::CaptureFile& want) {
  ASSERT_EQ(got.info().layers, want.info().layers);
  ASSERT_EQ(got.rows(), want.rows());
  EXPECT_GT(got.rows(), 0);
  int64_t there = 0;
  for (size_t layer = 0; layer < got.info().layers.size(); ++layer) {
    const auto k = static_cast<size_t>(got.info().layers[layer].top_k);
    std::vector<int32_t> ids(k), wanted_ids(k);
    std::vector<float> numbers(k + 1), wanted(k + 1);  // weights, and the margin
    for (int64_t row = 0; row < got.rows(); ++row) {
      SCOPED_TRACE("row " + std::to_string(row) + ", layer index " + std::to_string(layer));
      ASSERT_EQ(got.key(row), want.key(row));
      ASSERT_EQ(got.present(row, layer), want.present(row, layer));
      if (!got.read(row, layer, ids.data(), numbers.data(), &numbers[k])) continue;
      want.read(row, layer, wanted_ids.data(), wanted.data(), &wanted[k]);
      ++there;
      EXPECT_EQ(ids, wanted_ids);
      for (size_t j = 0; j <= k; ++j)
        EXPECT_TRUE(alike(numbers[j], wanted[j]))
            << (j < k ? "weight " + std::to_string(j) : "margin") << ": " << numbers[j] << ", want "
            << wanted[j];
    }
  }
  EXPECT_GE(there, got.rows()) << "every row has a layer that chose";
}

class Simulated : public testing::TestWithParam<Case> {
 protected:
  bool described_only() const {
    return !families().resolve(data_folder() / GetParam().folder).unsupported.empty();
  }
  // What the processor chooses, in a capture file.
  void choose_on_the_processor() {
    spec::Run run = plain_run(GetParam().folder);
    run.capture.push_back(capture_to("memory", routes_.path(), kAll));
    runtime::run(with_simulators(), families(), run);
  }
  const Output routes_{"sim_routes"}, memory_{"sim_memory"}, file_{"sim_file"},
      device_{"sim_device"}, native_{"sim_native"}, replayed_{"sim_replayed"};
};

// One run: compared with the golden numbers and with the processor's choices, captured by all that can.
TEST_P(Simulated, RunsToItsNumbers) {
  if (described_only()) GTEST_SKIP() << "described, not run";
  choose_on_the_processor();
  spec::Run run = simulated_run(GetParam());
  run.expect.emplace();
  run.expect->file = run.hidden_states;
  run.output = native_.path();
  run.replay = routes_.path();
  run.verify = true;
  run.capture = {capture_to("memory", memory_.path(), kAll), capture_to("file", file_.path(), kAll),
                 capture_to(GetParam().word + ".memory", device_.path(), kAll)};
  const runtime::RunReport report = runtime::run(with_simulators(), families(), run);
  EXPECT_EQ(report.device, GetParam().word + ":0");
  ASSERT_TRUE(report.routes && report.routes->difference);
  EXPECT_TRUE(report.routes->difference->same())
      << "chooses otherwise than the processor" << again();
  EXPECT_GT(report.routes->difference->rows, 0);
  const weights::Checkpoint golden(golden_file(GetParam().folder)), got(native_.path());
  for (const runtime::LayerReport& layer : report.layers) {
    SCOPED_TRACE("layer " + std::to_string(layer.layer_id) + again());
    expect_numbers(layer, golden);
    EXPECT_EQ(ids_of(got, layer.layer_id), ids_of(golden, layer.layer_id));
  }
  EXPECT_TRUE(bytes_of(memory_.path()) == bytes_of(file_.path())) << again();
  EXPECT_TRUE(bytes_of(memory_.path()) == bytes_of(device_.path())) << again();
  expect_alike(capture::CaptureFile(device_.path()), capture::CaptureFile(routes_.path()));
}

// Between them every scheme of weights and rows, and every rule that stands around experts.
constexpr const char* kOnSim64[] = {
    "deepseek-v3-fp8", "deepseek-v4-f32",       "deepseek-v4-fp4",   "gemma4-f32",
    "gpt-oss-f32",     "gpt-oss-mxfp4",         "kimi-k25-int4",     "kimi-k3-f32",
    "llama4-f32",      "llama4-fp8-dynamic",    "longcat-flash-f32", "mixtral-awq",
    "mixtral-gptq",    "nemotron-h-latent-f32", "olmoe-bf16",        "phimoe-f32",
    "qwen2-moe-f32",   "qwen3-moe-int8",        "qwen3-moe-mxfp8",   "qwen3-moe-nvfp4"};

std::vector<Case> cases() {
  std::vector<Case> made;
  for (const std::string& folder : folders()) made.push_back({folder, "sim32"});
  for (const char* folder : kOnSim64) made.push_back({folder, "sim64"});
  return made;
}

std::string case_name(const testing::TestParamInfo<Case>& c) {
  std::string name = c.param.folder + "_" + c.param.word;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Simulated, testing::ValuesIn(cases()), case_name);

// Own routes, captured on the device alone, give the same bits when they are forced.
class SimulatedReplay : public Simulated {};

TEST_P(SimulatedReplay, OwnRoutesGiveTheSameBits) {
  spec::Run run = simulated_run(GetParam());
  run.output = native_.path();
  run.capture = {capture_to(GetParam().word + ".memory", device_.path(), {"ids", "weights"})};
  runtime::run(with_simulators(), families(), run);

  spec::Run replay = simulated_run(GetParam());
  replay.replay = device_.path();
  replay.output = replayed_.path();
  replay.capture = {capture_to("memory", memory_.path(), {"ids", "weights"})};
  const runtime::RunReport followed = runtime::run(with_simulators(), families(), replay);
  ASSERT_TRUE(followed.routes.has_value());
  EXPECT_GT(followed.routes->replayed, 0);
  EXPECT_EQ(followed.routes->native, 0);
  EXPECT_TRUE(bytes_of(native_.path()) == bytes_of(replayed_.path())) << again();
  EXPECT_TRUE(bytes_of(device_.path()) == bytes_of(memory_.path())) << again();
}

INSTANTIATE_TEST_SUITE_P(Some, SimulatedReplay,
                         testing::Values(Case{"deepseek-v3-f32", "sim32"},
                                         Case{"deepseek-v4-f32", "sim32"},
                                         Case{"longcat-flash-f32", "sim64"},
                                         Case{"olmoe-bf16", "sim64"}),
                         case_name);

}  // namespace
}  // namespace moert::golden
