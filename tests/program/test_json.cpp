// --json says what the table says.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "program.hpp"

namespace moert::testing {
namespace {

// Text and JSON of one command.
struct Both {
  explicit Both(std::vector<std::string> arguments, const Start& start = {}) {
    text = run_moert(arguments, start);
    arguments.emplace_back("--json");
    ended = run_moert(arguments, start);
    EXPECT_EQ(text.code, ended.code) << MOERT_SHOW(text) << MOERT_SHOW(ended);
    json = ended.json();
    EXPECT_EQ(json.at("schema_version").get<int>(), 1);
  }
  Ended text, ended;
  Json json;
};

// The cells of the first line that begins with `first`.
std::vector<std::string> row_of(const std::string& text, const std::string& first) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::vector<std::string> cells;
    for (std::string word; words >> word;) cells.push_back(word);
    if (!cells.empty() && cells.front() == first) return cells;
  }
  return {};
}

TEST(JsonOfRun, MatchesTheTable) {
  const TemporaryFolder folder;
  const Both both({"run", run_file("qwen2-moe-f32")}, {.folder = folder.path()});
  ASSERT_EQ(both.text.code, 0) << MOERT_SHOW(both.text);
  for (const Json& layer : both.json.at("layers")) {
    const std::vector<std::string> row =
        row_of(both.text.out, std::to_string(layer.at("layer").get<int>()));
    ASSERT_GE(row.size(), 11u) << MOERT_SHOW(both.text);
    EXPECT_EQ(row[1], layer.at("routed_experts").get<std::string>());
    EXPECT_EQ(row[2], layer.at("scheme").get<std::string>());
    EXPECT_EQ(row[3], std::to_string(layer.at("tokens").get<int>()));
    EXPECT_EQ(row[6], std::to_string(layer.at("load").at("busiest_expert").get<int>()));
    EXPECT_NEAR(std::stod(row[7]), 100 * layer.at("load").at("busiest_share").get<double>(), 0.051);
    EXPECT_NEAR(std::stod(row[8]), layer.at("load").at("max_over_mean").get<double>(), 0.0051);
    EXPECT_EQ(row[9], std::to_string(layer.at("load").at("dead_experts").get<int>()));
    EXPECT_EQ(row[10], "ok:");
    EXPECT_GT(layer.at("time_seconds").get<double>(), 0);
    EXPECT_GT(layer.at("tokens_per_second").get<double>(), 0);
  }
  EXPECT_TRUE(contains(both.text.out, "wrote " + both.json.at("output").get<std::string>()));
}

TEST(JsonOfRun, RepeatKeepsEverySample) {
  const TemporaryFolder folder;
  const Both both({"run", run_file("olmoe-f32"), "--set", "repeat=7"}, {.folder = folder.path()});
  for (const Json& layer : both.json.at("layers"))
    EXPECT_EQ(layer.at("all_time_seconds").size(), 7u);
}

TEST(JsonOfExplain, MatchesTheTable) {
  const Both both({"explain", run_file("deepseek-v3-f32"), "--set", "fallback=next"});
  ASSERT_EQ(both.text.code, 0) << MOERT_SHOW(both.text);
  EXPECT_TRUE(both.json.at("accepted").get<bool>());
  for (const Json& layer : both.json.at("layers"))
    for (const Json& part : layer.at("parts")) {
      EXPECT_TRUE(contains(both.text.out, part.at("kind").get<std::string>()));
      EXPECT_TRUE(part.at("chosen").is_string());
      for (const Json& row : part.at("candidates")) {
        EXPECT_TRUE(contains(both.text.out, row.at("candidate").get<std::string>()));
        EXPECT_TRUE(contains(both.text.out, row.at("reason").get<std::string>())) << row;
      }
    }
}

std::string origin_of(const Json& facts, const std::string& name) {
  for (const Json& fact : facts)
    if (fact.at("name").get<std::string>() == name) return fact.at("from").get<std::string>();
  return "(absent)";
}

TEST(Explain, SaysWhereEachValueCameFrom) {
  Start start;
  start.environment = {{"MOERT_NUM_THREADS", "3"}, {"MOERT_DEVICE", "auto"}};
  const Both both({"explain", run_file("olmoe-f32"), "--set", "repeat=2", "--device", "cpu"},
                  start);
  const Json& run = both.json.at("run");
  EXPECT_EQ(origin_of(run, "device"), "--device");
  EXPECT_EQ(origin_of(run, "repeat"), "--set");
  EXPECT_EQ(origin_of(run, "threads"), "MOERT_NUM_THREADS");
  EXPECT_TRUE(contains(origin_of(run, "inputs.hidden_states"), "olmoe-f32.yaml:")) << run;
  EXPECT_EQ(origin_of(run, "fallback"), "default");
  EXPECT_TRUE(contains(origin_of(both.json.at("model"), "num_experts"), "config.json"))
      << both.json.at("model");
  EXPECT_TRUE(contains(both.text.out, "MOERT_NUM_THREADS")) << MOERT_SHOW(both.text);
}

TEST(Explain, FlagWinsOverSetWinsOverEnvironmentWinsOverYaml) {
  const auto device = [](std::vector<std::string> more,
                         std::map<std::string, std::string> environment) {
    std::vector<std::string> arguments = {"explain", run_file("olmoe-f32"), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return origin_of(run_moert(arguments, {.environment = std::move(environment)}).json().at("run"),
                     "device");
  };
  const std::map<std::string, std::string> set = {{"MOERT_DEVICE", "cpu"}};
  EXPECT_TRUE(contains(device({}, {}), "olmoe-f32.yaml:"));
  EXPECT_EQ(device({}, set), "MOERT_DEVICE");
  EXPECT_EQ(device({"--set", "device=cpu"}, set), "--set");
  EXPECT_EQ(device({"--set", "device=cpu", "--device", "cpu"}, set), "--device");
}

TEST(Explain, EqualLayersShareATable) {
  const Ended ended = run_moert({"explain", run_file("olmoe-tiny")});
  EXPECT_TRUE(contains(ended.out, "layers 0-5")) << MOERT_SHOW(ended);
}

TEST(JsonOfPlugins, MatchesTheTable) {
  const Both both({"plugins", "list", "--all"});
  ASSERT_EQ(both.text.code, 0) << MOERT_SHOW(both.text);
  std::vector<std::string> names;
  for (const Json& plugin : both.json.at("plugins")) {
    names.push_back(plugin.at("name").get<std::string>());
    const std::vector<std::string> row = row_of(both.text.out, names.back());
    ASSERT_GE(row.size(), 4u) << MOERT_SHOW(both.text);
    EXPECT_EQ(row[1], plugin.at("id").get<std::string>());
    EXPECT_EQ(row[2], plugin.at("version").get<std::string>());
    for (const Json& feature : plugin.at("features"))
      EXPECT_TRUE(contains(both.text.out, feature.at("name").get<std::string>())) << feature;
  }
  std::vector<std::string> expected = {"capture", "core", "cpu", "null", "quant"};
  for (const std::string& plugin : gpu_plugins()) expected.push_back(plugin);
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(names, expected);
  for (const Json& file : both.json.at("files"))
    EXPECT_TRUE(contains(both.text.out, file.at("outcome").get<std::string>())) << file;
}

TEST(JsonOfPlugins, ShowHasEveryFeature) {
  for (const char* name : {"core", "cpu", "null", "quant", "capture"}) {
    const Both both({"plugins", "show", name});
    ASSERT_EQ(both.text.code, 0) << MOERT_SHOW(both.text);
    EXPECT_FALSE(both.json.at("plugin").at("features").empty()) << name;
    for (const Json& feature : both.json.at("plugin").at("features")) {
      EXPECT_TRUE(contains(both.text.out, feature.at("kind").get<std::string>()))
          << MOERT_SHOW(both.text);
      EXPECT_TRUE(contains(both.text.out, feature.at("name").get<std::string>()))
          << MOERT_SHOW(both.text);
    }
  }
}

TEST(JsonOfInspect, BytesAddUpToTheFile) {
  const Both both({"model", "inspect", data_folder("deepseek-v3-bf16").string()});
  ASSERT_EQ(both.text.code, 0) << MOERT_SHOW(both.text);
  EXPECT_TRUE(both.json.at("complete").get<bool>());
  uint64_t bytes = 0, tensors = 0;
  for (const Json& size : both.json.at("sizes")) {
    bytes += size.at("bytes").get<uint64_t>();
    tensors += size.at("tensors").get<uint64_t>();
    EXPECT_TRUE(contains(both.text.out, std::to_string(size.at("bytes").get<uint64_t>()))) << size;
  }
  EXPECT_EQ(tensors, both.json.at("tensors_used").get<uint64_t>() +
                         both.json.at("tensors_ignored").get<uint64_t>());
  const std::string file = read_file(data_folder("deepseek-v3-bf16") / "model.safetensors");
  uint64_t header = 0;
  for (int i = 7; i >= 0; --i)
    header = header << 8 | static_cast<unsigned char>(file[static_cast<size_t>(i)]);
  EXPECT_EQ(bytes, file.size() - 8 - header);
  for (const Json& fact : both.json.at("model"))
    EXPECT_TRUE(contains(both.text.out, fact.at("name").get<std::string>())) << fact;
}

TEST(JsonOfInspect, AnySafetensorsFile) {
  const Both both({"model", "inspect", (data_folder("olmoe-f32") / "golden.safetensors").string()});
  ASSERT_EQ(both.text.code, 0) << MOERT_SHOW(both.text);
  EXPECT_EQ(both.json.at("metadata").at("family").get<std::string>().empty(), false);
  for (const Json& tensor : both.json.at("tensors"))
    EXPECT_TRUE(contains(both.text.out, tensor.at("name").get<std::string>()));
}

TEST(JsonOfEnv, HasWhatTheTablesHave) {
  Start start;
  start.environment = {{"MOERT_LOG", "error"}, {"MOERT_PLUGINZ", "cpu"}};
  const Both both({"env"}, start);
  ASSERT_EQ(both.text.code, 0) << MOERT_SHOW(both.text);
  for (const char* key :
       {"version", "plugin_abi", "compiler", "build_type", "program", "processor"})
    EXPECT_TRUE(contains(both.text.out, both.json.at(key).get<std::string>())) << key;
  EXPECT_GE(both.json.at("threads").get<int>(), 1);
  for (const Json& entry : both.json.at("search"))
    EXPECT_TRUE(contains(both.text.out, entry.at("path").get<std::string>()));
  ASSERT_EQ(both.json.at("variables").size(), 2u);
  EXPECT_TRUE(both.json.at("variables").at(0).at("known").get<bool>());
  EXPECT_FALSE(both.json.at("variables").at(1).at("known").get<bool>());
  bool has_cpu = false;
  for (const Json& device : both.json.at("devices"))
    has_cpu |= device.at("device").get<std::string>() == "cpu:0";
  EXPECT_TRUE(has_cpu) << both.json;
}

TEST(JsonOfBench, HasValueTargetAndSamples) {
  for (const char* what : {"overhead", "plugins"}) {
    const Ended ended = run_moert({"bench", what, "--json"});
    EXPECT_TRUE(ended.code == 0 || ended.code == 1) << MOERT_SHOW(ended);
    const Json first = ended.json().at("measurements").at(0);
    EXPECT_GT(first.at("value").get<double>(), 0);
    EXPECT_GT(first.at("target").get<double>(), 0);
    EXPECT_EQ(first.at("met").get<bool>(),
              first.at("value").get<double>() < first.at("target").get<double>());
    EXPECT_FALSE(first.at("samples").empty());
  }
}

}  // namespace
}  // namespace moert::testing
