// Families as a user meets them: the list, configs alone, models that are described but not run,
// routing by token ids, and routing that is made up.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <sstream>

#include "program.hpp"
#include "support/safetensors_edit.hpp"
#include "weights/safetensors.hpp"

namespace moert::testing {
namespace {

namespace fs = std::filesystem;

fs::path configs() { return source_folder() / "tests/data/configs"; }

const Json& expected_of_configs() {
  static const Json table = Json::parse(read_file(configs() / "expected.json"));
  return table;
}

std::vector<std::string> config_folders() {
  std::vector<std::string> names;
  for (const std::string& file : files_below(configs())) {
    const fs::path path(file);
    if (path.filename() == "config.json" || path.filename() == "params.json")
      names.push_back(path.parent_path().string());
  }
  return names;
}

class PublishedConfig : public ::testing::TestWithParam<std::string> {};

TEST_P(PublishedConfig, IsDescribedOrRefusedAsTheTableSays) {
  const Json& expected = expected_of_configs().at(GetParam());
  const Ended ended = run_moert({"model", "describe", (configs() / GetParam()).string()});
  ASSERT_EQ(ended.signal, 0) << MOERT_SHOW(ended);
  if (expected.contains("error")) {
    EXPECT_EQ(ended.code, 2) << MOERT_SHOW(ended);
    EXPECT_TRUE(ended.out.empty()) << MOERT_SHOW(ended);
    for (const Json& part : expected.at("error"))
      EXPECT_TRUE(contains(ended.err, part.get<std::string>())) << part << MOERT_SHOW(ended);
    return;
  }
  EXPECT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.out, "kind: Model")) << MOERT_SHOW(ended);
  if (expected.contains("num_experts")) {
    EXPECT_TRUE(contains(ended.out, "num_experts: " + expected.at("num_experts").dump() + " "))
        << MOERT_SHOW(ended);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PublishedConfig, ::testing::ValuesIn(config_folders()),
                         [](const ::testing::TestParamInfo<std::string>& folder) {
                           std::string name = folder.param;
                           std::replace(name.begin(), name.end(), '/', '_');
                           return name;
                         });

TEST(PublishedConfigs, AreAllInTheTable) {
  std::set<std::string> folders, entries;
  for (const std::string& folder : config_folders()) folders.insert(folder);
  for (const auto& [name, facts] : expected_of_configs().items()) entries.insert(name);
  EXPECT_EQ(folders, entries);
}

// Names of the family files that can be matched, read without the program's own reader.
std::set<std::string> shipped_families() {
  const std::regex name(R"(metadata: \{ name: (\S+) \})"), abstract(R"(\n  abstract: true)");
  std::set<std::string> names;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(source_folder() / "configs/families")) {
    const std::string text = read_file(entry.path());
    std::smatch found;
    if (std::regex_search(text, found, name) && !std::regex_search(text, abstract))
      names.insert(found[1]);
  }
  return names;
}

TEST(ModelList, HasALineForEachFamilyThatIsNotAbstract) {
  const Ended ended = run_moert({"model", "list"});
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  std::set<std::string> first_words;
  std::istringstream lines(ended.out);
  for (std::string line; std::getline(lines, line);) {
    std::string word;
    std::istringstream(line) >> word;
    first_words.insert(word);
  }
  for (const std::string& family : shipped_families())
    EXPECT_TRUE(first_words.contains(family)) << family << MOERT_SHOW(ended);
  EXPECT_FALSE(first_words.contains("common")) << MOERT_SHOW(ended);
}

TEST(ModelList, JsonSaysWhichRunAndWhyOthersDoNot) {
  const Json document = run_moert({"model", "list", "--json"}).json();
  std::set<std::string> names;
  for (const Json& family : document.at("families")) {
    EXPECT_TRUE(names.insert(family.at("family").get<std::string>()).second) << family;
    EXPECT_EQ(family.at("runs").get<bool>(), family.at("unsupported").get<std::string>().empty());
    EXPECT_FALSE(family.at("model_types").empty() && family.at("architectures").empty() &&
                 family.at("keys").empty())
        << family << " can never be matched";
  }
  EXPECT_EQ(names, shipped_families());
}

// A copy of a checkpoint whose config is changed.
void copy_with_config(const std::string& from, const fs::path& to, const Json& change) {
  fs::copy(data_folder(from), to, fs::copy_options::recursive);
  Json config = Json::parse(read_file(to / "config.json"));
  config.update(change);
  write_file(to / "config.json", config.dump());
}

// Described with the reason by `inspect`, refused with it by `run`, and neither is silent about it.
void expect_described_but_refused(const fs::path& checkpoint, const std::string& reason) {
  const Ended inspect = run_moert({"model", "inspect", checkpoint.string()});
  EXPECT_EQ(inspect.code, 4) << MOERT_SHOW(inspect);
  EXPECT_TRUE(contains(inspect.out, reason)) << MOERT_SHOW(inspect);
  EXPECT_TRUE(contains(inspect.out, "num_experts")) << MOERT_SHOW(inspect);
  const Ended json = run_moert({"model", "inspect", checkpoint.string(), "--json"});
  EXPECT_EQ(json.code, 4) << MOERT_SHOW(json);
  EXPECT_TRUE(contains(json.json().at("unsupported").dump(), reason)) << MOERT_SHOW(json);
  EXPECT_EQ(run_moert({"model", "describe", checkpoint.string()}).code, 0);
  const TemporaryFolder folder;
  write_file(folder / "run.yaml", run_yaml(checkpoint));
  const Ended run = run_moert({"run", (folder / "run.yaml").string()});
  EXPECT_EQ(run.code, 4) << MOERT_SHOW(run);
  EXPECT_TRUE(contains(run.err, reason)) << MOERT_SHOW(run);
}

TEST(NotRun, AFamilyThatIsNotSupported) {
  expect_described_but_refused(data_folder("muse-spark-f32"),
                               "each expert's output is normed by itself");
}

TEST(NotRun, AKeyThatAsksForWhatTheFamilyLeavesOut) {
  const TemporaryFolder folder;
  copy_with_config("longcat-flash-f32", folder / "model", {{"norm_topk_prob", true}});
  expect_described_but_refused(folder / "model", "norm_topk_prob is true");
}

TEST(NotRun, AModelTypeThatNoFamilyKnows) {
  const TemporaryFolder folder;
  copy_with_config("qwen3-moe-f32", folder / "model",
                   {{"model_type", "unheard_of"}, {"architectures", {"UnheardForCausalLM"}}});
  expect_described_but_refused(folder / "model", "'unheard_of'");
}

// A config that makes every layer dense, of a checkpoint that has experts.
TEST(Dense, ExpertTensorsThatNoLayerTakesAreReported) {
  struct Case {
    const char* from;
    Json change;
  };
  for (const Case& c : {Case{"deepseek-v3-f32", {{"first_k_dense_replace", 3}}},
                        Case{"step3-f32", {{"moe_layers_enum", ""}}},
                        Case{"dbrx-f32", {{"ffn_config", nullptr}}}}) {
    const TemporaryFolder folder;
    copy_with_config(c.from, folder / "model", c.change);
    const Ended ended = run_moert({"model", "inspect", (folder / "model").string()});
    EXPECT_NE(ended.code, 0) << c.from << MOERT_SHOW(ended);
    EXPECT_FALSE(contains(ended.out, "a dense model")) << MOERT_SHOW(ended);
  }
}

TEST(Dense, AConfigAloneSaysSo) {
  const TemporaryFolder folder;
  write_file(folder / "config.json",
             R"({"model_type":"gemma4_text","num_hidden_layers":2,"hidden_size":8})");
  const Ended ended = run_moert({"model", "inspect", folder.path().string()});
  EXPECT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.out, "a dense model")) << MOERT_SHOW(ended);
}

// deepseek-v4-f32: layer 0 looks experts up by token.
TEST(TokenIds, AreReadWhereALayerRoutesByThem) {
  const TemporaryFolder folder;
  const fs::path model = data_folder("deepseek-v4-f32");
  write_file(folder / "run.yaml", run_yaml(model));
  const std::vector<std::string> arguments = {"run", (folder / "run.yaml").string(), "--set"};
  const auto with_inputs = [&](const SafetensorsEdit& inputs) {
    inputs.write(folder / "rows.safetensors");
    std::vector<std::string> words = arguments;
    words.push_back("inputs.hidden_states=" + (folder / "rows.safetensors").string());
    return run_moert(words);
  };
  SafetensorsEdit inputs(model / "golden.safetensors");
  EXPECT_EQ(with_inputs(inputs).code, 0);
  SafetensorsEdit own = inputs;
  own.rename("input_ids", "layers.0.input_ids");
  EXPECT_EQ(with_inputs(own).code, 0) << "the layer's own";
  SafetensorsEdit other = inputs;
  auto* ids = reinterpret_cast<int64_t*>(other.at("input_ids").data.data());
  std::rotate(ids, ids + 1, ids + other.at("input_ids").shape.at(0));
  EXPECT_EQ(with_inputs(other).code, 1) << "other tokens go to other experts";
  // A row without a token has no experts, and nothing to capture.
  SafetensorsEdit bare = inputs;
  reinterpret_cast<int64_t*>(bare.at("input_ids").data.data())[1] = -1;
  bare.write(folder / "rows.safetensors");
  const Ended captured = run_moert(
      {"run", (folder / "run.yaml").string(), "--set", "expect=null", "--set",
       "inputs.hidden_states=" + (folder / "rows.safetensors").string(), "--set",
       "capture=[{to: memory, what: [ids], path: " + (folder / "routes.safetensors").string() +
           "}]"});
  EXPECT_EQ(captured.code, 0) << MOERT_SHOW(captured);
  inputs.drop("input_ids");
  const Ended ended = with_inputs(inputs);
  EXPECT_EQ(ended.code, 6) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.err, "tensor 'input_ids' is missing")) << MOERT_SHOW(ended);
}

class Simulated : public ::testing::Test {
 protected:
  Ended run(const std::string& simulate, const std::string& output,
            const std::string& model = "qwen2-moe-f32") {
    write_file(folder_ / "run.yaml", run_yaml(data_folder(model)));
    return run_moert({"run", (folder_ / "run.yaml").string(), "--set", "expect=null", "--set",
                      "simulate=" + simulate, "--set",
                      "outputs={file: " + (folder_ / output).string() + "}", "--json"});
  }
  TemporaryFolder folder_;
};

TEST_F(Simulated, IsReproducibleAndDiffersBySeed) {
  for (const std::string routing : {"uniform", "normal", "zipf"}) {
    const auto bytes = [&](const std::string& seed) {
      const Ended ended = run("{routing: " + routing + ", seed: " + seed + "}", "out.safetensors");
      EXPECT_EQ(ended.code, 0) << MOERT_SHOW(ended);
      EXPECT_FALSE(ended.json().at("checked").get<bool>()) << MOERT_SHOW(ended);
      return read_file(folder_ / "out.safetensors");
    };
    const std::string once = bytes("7");
    EXPECT_EQ(bytes("7"), once) << routing;
    EXPECT_NE(bytes("8"), once) << routing;
    const weights::Checkpoint file(folder_ / "out.safetensors");
    EXPECT_EQ(file.metadata().at("simulated"), routing);
  }
}

TEST_F(Simulated, NeedsNoTokenIds) {
  EXPECT_EQ(run("{routing: uniform}", "out.safetensors", "deepseek-v4-f32").code, 0);
}

TEST_F(Simulated, IsNeverComparedWithNumbers) {
  write_file(folder_ / "run.yaml", run_yaml(data_folder("qwen2-moe-f32")));
  const Ended ended = run_moert(
      {"run", (folder_ / "run.yaml").string(), "--set", "simulate={routing: uniform, seed: 1}"});
  EXPECT_EQ(ended.code, 2) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.err, "'expect'")) << MOERT_SHOW(ended);
  const Ended unknown = run("{routing: pareto}", "out.safetensors");
  EXPECT_EQ(unknown.code, 2) << MOERT_SHOW(unknown);
  EXPECT_TRUE(contains(unknown.err, "pareto")) << MOERT_SHOW(unknown);
}

}  // namespace
}  // namespace moert::testing
