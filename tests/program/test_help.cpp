// --help of every command, and the examples in it.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <sstream>

#include "program.hpp"

namespace moert::testing {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// The indented lines below "Examples:".
std::vector<std::string> examples_of(const std::string& help) {
  std::vector<std::string> examples;
  std::istringstream stream(help.substr(std::min(help.find("Examples:\n"), help.size())));
  std::string line;
  std::getline(stream, line);
  while (std::getline(stream, line) && line.rfind("  moert ", 0) == 0)
    examples.push_back(line.substr(2));
  return examples;
}

// A folder in which the repository's paths mean the repository's files.
struct Checkout {
  Checkout() {
    for (const char* name : {"configs", "tests"})
      fs::create_directory_symlink(source_folder() / name, folder / name);
  }
  // The capture files that examples read.
  void capture() const {
    const Ended ended =
        run_moert({"run", "configs/runs/olmoe-tiny.yaml"}, {.folder = folder.path()});
    EXPECT_EQ(ended.code, 0) << MOERT_SHOW(ended);
    for (const char* name : {"out/a.safetensors", "out/b.safetensors"})
      fs::copy_file(folder / "out/olmoe-tiny.routes.safetensors", folder / name);
  }
  TemporaryFolder folder;
};

class Help : public ::testing::TestWithParam<const char*> {};

TEST_P(Help, HasUsageTwoExamplesAndFitsATerminal) {
  std::vector<std::string> arguments = words_of(GetParam());
  arguments.push_back("--help");
  const Ended ended = run_moert(arguments);
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  EXPECT_EQ(ended.err, "");
  const std::string name = std::string("moert") + (*GetParam() != '\0' ? " " : "") + GetParam();
  EXPECT_EQ(ended.out.rfind("usage: " + name + " ", 0), 0u) << MOERT_SHOW(ended);
  EXPECT_EQ(examples_of(ended.out).size(), 2u) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.out, "--json")) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.out, "MOERT_LOG")) << MOERT_SHOW(ended);
  std::istringstream lines(ended.out);
  for (std::string line; std::getline(lines, line);)
    if (line.rfind("  moert ", 0) != 0) {
      EXPECT_LE(line.size(), 80u) << line;
    }
}

class Examples : public ::testing::TestWithParam<const char*> {};

TEST_P(Examples, Run) {
  std::vector<std::string> arguments = words_of(GetParam());
  arguments.push_back("--help");
  const Checkout checkout;
  if (arguments.front() == "capture" || arguments.front() == "report") checkout.capture();
  for (const std::string& example : examples_of(run_moert(arguments).out)) {
    std::vector<std::string> words = words_of(example);
    words.erase(words.begin());
    const Ended ended = run_moert(words, {.folder = checkout.folder.path()});
    // A slow or busy machine may miss a bench's target; that is no failure of the example.
    const bool may_miss = words.front() == "bench" && ended.code == 1;
    EXPECT_TRUE(ended.code == 0 || may_miss) << MOERT_SHOW(ended);
    EXPECT_NE(ended.out, "") << MOERT_SHOW(ended);
    if (words.back() == "--json") {
      EXPECT_NO_THROW(ended.json()) << MOERT_SHOW(ended);
    }
  }
}

std::string test_name(const ::testing::TestParamInfo<const char*>& tested) {
  std::string name = *tested.param == '\0' ? "moert" : tested.param;
  for (char& c : name) c = c == ' ' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(Command, Help,
                         ::testing::Values("", "run", "explain", "plugins", "plugins list",
                                           "plugins show", "model", "model inspect",
                                           "model describe", "model list", "quantize", "capture",
                                           "capture show", "capture stats", "capture diff",
                                           "capture convert", "capture attach", "capture segments",
                                           "report", "env", "bench", "bench overhead",
                                           "bench experts", "bench capture", "bench plugins",
                                           "bench index", "bench load"),
                         test_name);

// All but those that take the routing of another process, and one that measures whole layers.
INSTANTIATE_TEST_SUITE_P(Command, Examples,
                         ::testing::Values("", "run", "explain", "plugins", "plugins list",
                                           "plugins show", "model", "model inspect",
                                           "model describe", "model list", "quantize", "capture",
                                           "capture show", "capture stats", "capture diff",
                                           "capture convert", "capture segments", "report", "env",
                                           "bench", "bench overhead", "bench capture",
                                           "bench plugins", "bench index", "bench load"),
                         test_name);

TEST(MainHelp, ListsCommandsAndExitCodes) {
  const Ended ended = run_moert({"--help"});
  for (const char* word :
       {"\n  run ", "\n  explain ", "\n  plugins ", "\n  model ", "\n  capture ", "\n  report ",
        "\n  env ", "\n  bench ", "Exit codes:", "    0  ", "    1  ", "    2  ", "    3  ",
        "    4  ", "    5  ", "    6  ", "  130  "})
    EXPECT_TRUE(contains(ended.out, word)) << word << MOERT_SHOW(ended);
}

TEST(MainHelp, EveryVariableStandsBesideItsFlag) {
  const std::string help = run_moert({"run", "--help"}).out;
  for (const char* name : {"MOERT_PLUGIN_PATH", "MOERT_PLUGINS", "MOERT_LOG", "MOERT_LOG_FILE",
                           "MOERT_DEVICE", "MOERT_NUM_THREADS", "MOERT_CPU_ISA", "NO_COLOR"})
    EXPECT_TRUE(contains(help, name)) << name << "\n" << help;
}

TEST(Version, IsOneLine) {
  const Ended ended = run_moert({"--version"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.out.rfind("moert ", 0), 0u) << MOERT_SHOW(ended);
  EXPECT_EQ(std::count(ended.out.begin(), ended.out.end(), '\n'), 1) << MOERT_SHOW(ended);
}

}  // namespace
}  // namespace moert::testing
