// Asked wrongly, or served by nobody: the exit code, three lines, and the nearest name.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <ostream>

#include "program.hpp"

namespace moert::testing {
namespace {

struct ErrorCase {
  const char* name;
  std::vector<std::string> arguments;
  int code;
  std::vector<std::string> said;  // on stderr
  std::map<std::string, std::string> environment = {};
};

void PrintTo(const ErrorCase& tested, std::ostream* out) { *out << tested.name; }

std::string olmoe() { return run_file("olmoe-f32"); }

// What an unset variable of a shell leaves behind.
std::vector<ErrorCase> empty_cases() {
  return {
      {"set_nothing", {"run", olmoe(), "--set", "expect="}, 2, {"after '='", "expect=null"}},
      {"empty_run", {"run", ""}, 2, {"the argument is empty", "RUN.yaml"}},
      {"empty_explain", {"explain", ""}, 2, {"the argument is empty"}},
      {"empty_inspect", {"model", "inspect", ""}, 2, {"the argument is empty"}},
      {"empty_describe", {"model", "describe", ""}, 2, {"the argument is empty"}},
      {"empty_bench", {"bench", "overhead", ""}, 2, {"the argument is empty"}},
      {"empty_load", {"bench", "load", ""}, 2, {"the argument is empty"}},
      {"empty_output",
       {"model", "describe", data_folder("olmoe-f32").string(), "-o", ""},
       2,
       {"the argument is empty", "--output"}},
      {"empty_log_file", {"env", "--log-file", ""}, 2, {"the argument is empty", "--log-file"}},
  };
}

std::vector<ErrorCase> error_cases() {
  return {
      {"no_command", {}, 2, {"a command is missing", "explain"}},
      {"unknown_command", {"runn"}, 2, {"unknown command 'runn'", "did you mean 'run'"}},
      {"unknown_verb", {"plugins", "lits"}, 2, {"unknown command 'lits'", "did you mean 'list'"}},
      {"missing_verb", {"model"}, 2, {"a command is missing", "inspect"}},
      {"unknown_flag",
       {"run", olmoe(), "--devise", "cpu"},
       2,
       {"unknown flag '--devise'", "did you mean '--device'"}},
      {"missing_argument", {"run"}, 2, {"RUN.yaml is missing"}},
      {"one_argument_too_many", {"env", "extra"}, 2, {"'extra' is one argument too many"}},
      {"flag_without_value", {"run", olmoe(), "--device"}, 2, {"--device"}},
      {"set_without_value", {"run", olmoe(), "--set"}, 2, {"--set"}},
      {"folder_for_a_run",
       {"run", data_folder("olmoe-f32").string()},
       2,
       {"folder", "moert explain"}},
      {"other_kind_for_a_run",
       {"run", (source_folder() / "configs/families/olmoe.yaml").string()},
       2,
       {"Family", "olmoe.yaml:"}},
      {"missing_file", {"run", "/nonexistent/run.yaml"}, 2, {"/nonexistent/run.yaml"}},
      {"set_without_equals", {"run", olmoe(), "--set", "device"}, 2, {"'device' is no setting"}},
      {"set_unknown_key",
       {"run", olmoe(), "--set", "layers.ruoter=cpu.ref"},
       2,
       {"ruoter", "--set", "did you mean 'router'"}},
      {"set_bad_value", {"run", olmoe(), "--set", "repeat=many"}, 2, {"repeat", "--set"}},
      {"bad_threads", {"run", olmoe(), "--threads", "x"}, 2, {"threads", "--threads"}},
      {"bad_threads_without_run", {"env", "--threads", "-1"}, 2, {"--threads"}},
      {"bad_threads_variable", {"env"}, 2, {"MOERT_NUM_THREADS"}, {{"MOERT_NUM_THREADS", "ten"}}},
      {"bad_log", {"env", "--log", "loud"}, 2, {"loud"}},
      {"unknown_device", {"run", olmoe(), "--device", "cuda:7"}, 5, {"cuda:7"}},
      {"unknown_device_variable", {"run", olmoe()}, 5, {"qpu:0"}, {{"MOERT_DEVICE", "qpu:0"}}},
      {"malformed_device", {"run", olmoe(), "--device", "cpu:x"}, 2, {"cpu:x"}},
      {"missing_plugin_path",
       {"run", olmoe(), "--plugin-path", "/nonexistent"},
       2,
       {"/nonexistent", "--plugin-path"}},
      {"missing_families",
       {"run", olmoe(), "--families", "/nonexistent"},
       2,
       {"/nonexistent", "--families"}},
      {"unknown_plugin",
       {"plugins", "show", "cpuu"},
       3,
       {"no plugin 'cpuu'", "did you mean 'cpu'"}},
      {"unknown_candidate",
       {"run", olmoe(), "--set", "layers.routed_experts=cpu.rf"},
       4,
       {"routed_experts", "cpu.rf", "candidate"}},
      {"set_on_a_folder",
       {"explain", data_folder("olmoe-f32").string(), "--set", "device=cpu"},
       2,
       {"--set"}},
      {"no_checkpoint", {"model", "inspect", "/nonexistent"}, 2, {"/nonexistent"}},
      {"other_scheme", {"run", olmoe(), "--set", "layers.quant=bf16"}, 2, {"bf16", "f32"}},
  };
}

class Errors : public ::testing::TestWithParam<ErrorCase> {};

TEST_P(Errors, ExitCodeAndWords) {
  const TemporaryFolder folder;
  const Ended ended = run_moert(GetParam().arguments,
                                {.folder = folder.path(), .environment = GetParam().environment});
  EXPECT_EQ(ended.code, GetParam().code) << MOERT_SHOW(ended);
  EXPECT_EQ(ended.out, "") << MOERT_SHOW(ended);
  EXPECT_EQ(ended.err.rfind("error: ", 0), 0u) << MOERT_SHOW(ended);
  EXPECT_GE(std::count(ended.err.begin(), ended.err.end(), '\n'), 3)
      << "three lines" << MOERT_SHOW(ended);
  for (const std::string& word : GetParam().said)
    EXPECT_TRUE(contains(ended.err, word)) << word << MOERT_SHOW(ended);
  EXPECT_TRUE(files_below(folder.path()).empty()) << "a failed command wrote something";
}

TEST_P(Errors, AreObjectsInJson) {
  std::vector<std::string> arguments = GetParam().arguments;
  const size_t place =
      arguments.empty() || arguments.back() == "--device" || arguments.back() == "--set"
          ? 0
          : arguments.size();
  arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(place), "--json");
  const TemporaryFolder folder;
  const Ended ended =
      run_moert(arguments, {.folder = folder.path(), .environment = GetParam().environment});
  EXPECT_EQ(ended.code, GetParam().code) << MOERT_SHOW(ended);
  const Json error = ended.json().at("error");
  EXPECT_EQ(error.at("exit_code").get<int>(), GetParam().code);
  EXPECT_EQ(ended.json().at("schema_version").get<int>(), 1);
  for (const char* key : {"fault", "what", "where", "remedy"})
    EXPECT_TRUE(error.at(key).is_string()) << key;
  EXPECT_TRUE(contains(ended.err, error.at("what").get<std::string>())) << MOERT_SHOW(ended);
}

INSTANTIATE_TEST_SUITE_P(Case, Errors, ::testing::ValuesIn(error_cases()),
                         [](const auto& tested) { return tested.param.name; });
INSTANTIATE_TEST_SUITE_P(Empty, Errors, ::testing::ValuesIn(empty_cases()),
                         [](const auto& tested) { return tested.param.name; });

struct YamlCase {
  const char* name;
  const char* text;
  const char* place;  // ":line:column", or nothing
  const char* said;
};

void PrintTo(const YamlCase& tested, std::ostream* out) { *out << tested.name; }

class BadYaml : public ::testing::TestWithParam<YamlCase> {};

TEST_P(BadYaml, IsExitTwoWithLineAndColumn) {
  const TemporaryFolder folder;
  write_file(folder / "run.yaml", GetParam().text);
  const Ended ended = run_moert({"run", (folder / "run.yaml").string()});
  EXPECT_EQ(ended.code, 2) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.err, "run.yaml" + std::string(GetParam().place))) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.err, GetParam().said)) << MOERT_SHOW(ended);
}

INSTANTIATE_TEST_SUITE_P(
    Case, BadYaml,
    ::testing::Values(YamlCase{"unknown_key",
                               "apiVersion: moert/v1\nkind: Run\nmetadata: { name: x }\nspec:\n  "
                               "modle: { checkpoint: a }\n",
                               ":5:3", "did you mean 'model'"},
                      YamlCase{"duplicate_key",
                               "apiVersion: moert/v1\nkind: Run\nmetadata: { name: x }\nspec:\n  "
                               "device: cpu\n  device: cpu\n",
                               ":6:3", "device"},
                      YamlCase{"no_yaml", "apiVersion: moert/v1\nkind: [Run\n", "", "run.yaml"},
                      YamlCase{"other_kind",
                               "apiVersion: moert/v1\nkind: Rum\nmetadata: { name: x }\nspec: {}\n",
                               ":2:", "Rum"},
                      YamlCase{"empty", "", "", "run.yaml"}),
    [](const auto& tested) { return tested.param.name; });

// A candidate that knows the layer and will not have it: pinned, so nobody else is asked.
TEST(Refused, PinToARefusingCandidatePrintsTheTable) {
  const Ended ended = run_moert({"run", olmoe(), "--set", "layers.shared_experts=cpu.ref", "--set",
                                 "layers.router=null.router", "--set", "layers.runner=cpu.ref"});
  EXPECT_EQ(ended.code, 4) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.err, "candidate")) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.err, "core.default")) << MOERT_SHOW(ended);
}

TEST(Refused, ExplainPrintsEverythingThenExitsFour) {
  const Ended ended = run_moert({"explain", olmoe(), "--set", "layers.routed_experts=cpu.nothing"});
  EXPECT_EQ(ended.code, 4) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.out, "routed_experts")) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.out, "cpu.nothing")) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.out, "core.default")) << MOERT_SHOW(ended);
  EXPECT_EQ(ended.err.rfind("error: no routed_experts accepts layers 0, 1", 0), 0u)
      << MOERT_SHOW(ended);
  const Ended json =
      run_moert({"explain", olmoe(), "--set", "layers.routed_experts=cpu.nothing", "--json"});
  EXPECT_EQ(json.code, 4);
  EXPECT_FALSE(json.json().at("accepted").get<bool>());
  EXPECT_EQ(json.json().at("error").at("exit_code").get<int>(), 4);
}

// A scheme that no loaded plugin can read.
TEST(Refused, WithoutTheQuantPluginNobodyReadsTheWeights) {
  const Ended ended = run_moert({"run", olmoe(), "--plugins", "cpu", "--set", "capture=[]"});
  EXPECT_EQ(ended.code, 4) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.err, "f32")) << MOERT_SHOW(ended);
}

// A dense model is refused at once, before any weight is looked for: there is none in the folder.
TEST(Refused, CaptureOnADenseModelFailsBeforeWeights) {
  const TemporaryFolder folder;
  Json config = Json::parse(read_file(data_folder("qwen3-moe-f32") / "config.json"));
  config["mlp_only_layers"] = {0, 1, 2};
  write_file(folder / "dense/config.json", config.dump());
  std::filesystem::copy(data_folder("qwen3-moe-f32") / "golden.safetensors", folder / "dense");
  write_file(
      folder / "run.yaml",
      run_yaml(folder / "dense", "  capture: [ { to: memory, path: out/r.safetensors } ]\n"));
  const auto start = std::chrono::steady_clock::now();
  const Ended ended = run_moert({"run", (folder / "run.yaml").string()}, {.folder = folder.path()});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_EQ(ended.code, 2) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.err, "no MoE layers")) << MOERT_SHOW(ended);
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

}  // namespace
}  // namespace moert::testing
