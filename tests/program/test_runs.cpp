// Every shipped Run: ids exact, outputs within tolerance, files written.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "program.hpp"
#include "support/safetensors_edit.hpp"

namespace moert::testing {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> shipped_runs() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(source_folder() / "configs/runs"))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

class ShippedRun : public ::testing::TestWithParam<std::string> {};

TEST_P(ShippedRun, MeetsItsGoldenNumbers) {
  const TemporaryFolder folder;
  const Ended ended = run_moert({"run", run_file(GetParam()), "--json"}, {.folder = folder.path()});
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  const Json report = ended.json();
  EXPECT_TRUE(report.at("checked").get<bool>());
  EXPECT_TRUE(report.at("passed").get<bool>());
  ASSERT_FALSE(report.at("layers").empty());
  const bool is_f32 = GetParam().ends_with("-f32");
  for (const Json& layer : report.at("layers")) {
    const Json& check = layer.at("check");
    EXPECT_EQ(check.at("rows_with_wrong_ids").get<int>(), 0) << layer;
    EXPECT_LE(check.at("output").at("error").get<double>(),
              check.at("output_tolerance").get<double>())
        << layer;
    if (is_f32) {
      EXPECT_LE(check.at("output").at("error").get<double>(), 1e-5) << layer;
    }
    EXPECT_GE(layer.at("tokens").get<int>(), 1) << layer;
  }
}

TEST_P(ShippedRun, WritesOutputsThatFollowFromTheReport) {
  const TemporaryFolder folder;
  const Ended ended = run_moert({"run", run_file(GetParam()), "--json"}, {.folder = folder.path()});
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  const Json report = ended.json();
  ASSERT_TRUE(report.at("output").is_string()) << report;
  const SafetensorsEdit output(folder.path() / report.at("output").get<std::string>());
  for (const Json& layer : report.at("layers")) {
    const std::string prefix = "layers." + std::to_string(layer.at("layer").get<int>()) + ".";
    SafetensorsEdit copy = output;
    EXPECT_EQ(copy.at(prefix + "output").shape.at(0), layer.at("tokens").get<int64_t>());
    // Tokens per expert, counted from the ids that were written.
    const EditTensor& ids = copy.at(prefix + "topk_ids");
    std::vector<int64_t> counts(layer.at("load").at("expert_tokens").size());
    const auto* values = reinterpret_cast<const int32_t*>(ids.data.data());
    for (size_t i = 0; i < ids.data.size() / 4; ++i) ++counts.at(static_cast<size_t>(values[i]));
    EXPECT_EQ(Json(counts), layer.at("load").at("expert_tokens"));
  }
  for (const Json& capture : report.at("captures"))
    EXPECT_FALSE(
        SafetensorsEdit(folder.path() / capture.at("path").get<std::string>()).tensors.empty())
        << capture;
}

INSTANTIATE_TEST_SUITE_P(Runs, ShippedRun, ::testing::ValuesIn(shipped_runs()),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST(Run, GivesTheSameBytesWhateverTheThreads) {
  const TemporaryFolder folder;
  std::vector<std::string> outputs;
  for (const char* threads : {"1", "2", "5"}) {
    const Ended ended =
        run_moert({"run", run_file("olmoe-f32"), "--threads", threads}, {.folder = folder.path()});
    ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
    outputs.push_back(read_file(folder / "out/olmoe-f32.safetensors"));
  }
  EXPECT_FALSE(outputs[0].empty());
  EXPECT_EQ(outputs[0], outputs[1]);
  EXPECT_EQ(outputs[0], outputs[2]);
}

// The golden file without its rows.
void empty_rows(const fs::path& from, const fs::path& to) {
  SafetensorsEdit golden(from);
  for (EditTensor& tensor : golden.tensors) {
    tensor.shape.at(0) = 0;
    tensor.data.clear();
  }
  golden.write(to);
}

class ZeroTokens : public ::testing::TestWithParam<const char*> {};

TEST_P(ZeroTokens, AreOrdinary) {
  const TemporaryFolder folder;
  const fs::path golden = folder / "golden.safetensors";
  empty_rows(data_folder(GetParam()) / "golden.safetensors", golden);
  const std::vector<std::string> arguments = {"run",   run_file(GetParam()),
                                              "--set", "inputs.hidden_states=" + golden.string(),
                                              "--set", "expect.file=" + golden.string()};
  const Ended text = run_moert(arguments, {.folder = folder.path()});
  EXPECT_EQ(text.code, 0) << MOERT_SHOW(text);
  std::vector<std::string> with_json = arguments;
  with_json.push_back("--json");
  const Ended ended = run_moert(with_json, {.folder = folder.path()});
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  const Json report = ended.json();
  for (const Json& layer : report.at("layers")) EXPECT_EQ(layer.at("tokens").get<int>(), 0);
  for (const char* key : {"output"}) {
    SafetensorsEdit output(folder.path() / report.at(key).get<std::string>());
    for (const EditTensor& tensor : output.tensors) EXPECT_EQ(tensor.shape.at(0), 0) << tensor.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ZeroTokens,
                         ::testing::Values("olmoe-f32", "mixtral-bf16", "qwen2-moe-f32",
                                           "deepseek-v3-f32"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST(Run, DescriptionWrittenByDescribeGivesTheSameResult) {
  const TemporaryFolder folder;
  const Ended described = run_moert({"model", "describe", data_folder("deepseek-v3-f32").string(),
                                     "-o", (folder / "model.yaml").string()});
  ASSERT_EQ(described.code, 0) << MOERT_SHOW(described);
  const std::string data = data_folder("deepseek-v3-f32").string();
  write_file(folder / "run.yaml",
             "apiVersion: moert/v1\nkind: Run\nmetadata: { name: described }\nspec:\n"
             "  model: { description: model.yaml }\n  device: cpu\n"
             "  inputs: { hidden_states: " +
                 data +
                 "/golden.safetensors }\n"
                 "  expect: { file: " +
                 data + "/golden.safetensors }\n");
  const Ended ended = run_moert({"run", (folder / "run.yaml").string()});
  EXPECT_EQ(ended.code, 0) << MOERT_SHOW(ended);
}

}  // namespace
}  // namespace moert::testing
