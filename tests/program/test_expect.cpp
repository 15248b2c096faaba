// Expectations that are missed: exit code 1, and the worst element by name.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "program.hpp"
#include "support/safetensors_edit.hpp"

namespace moert::testing {
namespace {

constexpr const char* kData = "olmoe-f32";
constexpr int64_t kHidden = 40, kTopK = 3;

template <class T>
T* values_of(SafetensorsEdit& file, const std::string& name) {
  return reinterpret_cast<T*>(file.at(name).data.data());
}

// Runs olmoe-f32 against a changed golden file.
class Missed : public ::testing::Test {
 protected:
  Missed() : golden_(data_folder(kData) / "golden.safetensors") {}
  Ended run(const std::vector<std::string>& more = {}) {
    golden_.write(folder_ / "golden.safetensors");
    std::vector<std::string> arguments = {
        "run", run_file(kData), "--set",
        "expect.file=" + (folder_ / "golden.safetensors").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_moert(arguments, {.folder = folder_.path()});
  }
  TemporaryFolder folder_;
  SafetensorsEdit golden_;
};

TEST_F(Missed, UnchangedPasses) {
  const Ended ended = run();
  EXPECT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.out, "check passed: 2 of 2 layers")) << MOERT_SHOW(ended);
}

TEST_F(Missed, OutputNamesLayerTokenAndColumn) {
  values_of<float>(golden_, "layers.1.output")[17 * kHidden + 23] += 3;
  const Ended ended = run();
  EXPECT_EQ(ended.code, 1) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.out, "check FAILED: 1 of 2 layers")) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.out, "layer 1, output: token 17, column 23: got "))
      << MOERT_SHOW(ended);
  EXPECT_FALSE(contains(ended.out, "layer 0, output")) << MOERT_SHOW(ended);
  const Ended json = run({"--json"});
  EXPECT_EQ(json.code, 1);
  const Json check = json.json().at("layers").at(1).at("check");
  EXPECT_FALSE(check.at("passed").get<bool>());
  EXPECT_EQ(check.at("output").at("token").get<int>(), 17);
  EXPECT_EQ(check.at("output").at("column").get<int>(), 23);
  EXPECT_NEAR(
      check.at("output").at("want").get<double>() - check.at("output").at("got").get<double>(), 3,
      1e-3);
}

TEST_F(Missed, NanInTheGoldenFileFails) {
  values_of<float>(golden_, "layers.0.output")[5 * kHidden + 7] =
      std::numeric_limits<float>::quiet_NaN();
  const Ended ended = run();
  EXPECT_EQ(ended.code, 1) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.out, "layer 0, output: token 5, column 7: got ")) << MOERT_SHOW(ended);
  const Ended json = run({"--json"});
  EXPECT_EQ(json.json().at("layers").at(0).at("check").at("output").at("want").get<std::string>(),
            "nan");
}

TEST_F(Missed, WrongIdsNameTheRow) {
  auto* ids = values_of<int32_t>(golden_, "layers.0.topk_ids");
  // Some expert that row 9 did not take.
  int32_t other = 0;
  while (std::find(ids + 9 * kTopK, ids + 10 * kTopK, other) != ids + 10 * kTopK) ++other;
  ids[9 * kTopK + 1] = other;
  const Ended ended = run();
  EXPECT_EQ(ended.code, 1) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.out, "layer 0, ids: 1 row differ")) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.out, "token 9: got [")) << MOERT_SHOW(ended);
}

TEST_F(Missed, WrongWeightNamesTheExpert) {
  const int32_t expert = values_of<int32_t>(golden_, "layers.1.topk_ids")[4 * kTopK + 2];
  values_of<float>(golden_, "layers.1.topk_weights")[4 * kTopK + 2] += 0.5f;
  const Ended ended = run();
  EXPECT_EQ(ended.code, 1) << MOERT_SHOW(ended);
  EXPECT_TRUE(
      contains(ended.out, "layer 1, weight: token 4, expert " + std::to_string(expert) + ": got "))
      << MOERT_SHOW(ended);
}

TEST_F(Missed, OwnToleranceIsUsed) {
  values_of<float>(golden_, "layers.1.output")[17 * kHidden + 23] += 3;
  const Ended ended = run({"--set", "expect.tolerance.output=100"});
  EXPECT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  const Ended strict = run({"--set", "expect.tolerance.output=0"});
  EXPECT_EQ(strict.code, 1) << MOERT_SHOW(strict);
}

TEST_F(Missed, GoldenFileOfOtherShapeIsDamagedInput) {
  golden_.reshape("layers.1.output", {3, kHidden});
  const Ended ended = run();
  EXPECT_EQ(ended.code, 6) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.err, "layers.1.output")) << MOERT_SHOW(ended);
}

TEST_F(Missed, GoldenFileWithoutALayerIsDamagedInput) {
  golden_.drop("layers.1.topk_ids");
  const Ended ended = run();
  EXPECT_EQ(ended.code, 6) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.err, "layers.1.topk_ids")) << MOERT_SHOW(ended);
}

}  // namespace
}  // namespace moert::testing
