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

TEST_P(Help, ExamplesRun) {
  std::vector<std::string> arguments = words_of(GetParam());
  arguments.push_back("--help");
  const Checkout checkout;
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

INSTANTIATE_TEST_SUITE_P(Command, Help,
                         ::testing::Values("", "run", "explain", "plugins", "plugins list",
                                           "plugins show", "model", "model inspect",
                                           "model describe", "env", "bench", "bench overhead",
                                           "bench plugins", "bench index", "bench load"),
                         [](const auto& tested) {
                           std::string name = *tested.param == '\0' ? "moert" : tested.param;
                           for (char& c : name) c = c == ' ' ? '_' : c;
                           return name;
                         });

TEST(MainHelp, ListsCommandsAndExitCodes) {
  const Ended ended = run_moert({"--help"});
  for (const char* word : {"\n  run ", "\n  explain ", "\n  plugins ", "\n  model ", "\n  env ",
                           "\n  bench ", "Exit codes:", "    0  ", "    1  ", "    2  ", "    3  ",
                           "    4  ", "    5  ", "    6  ", "  130  "})
    EXPECT_TRUE(contains(ended.out, word)) << word << MOERT_SHOW(ended);
}

TEST(MainHelp, EveryVariableStandsBesideItsFlag) {
  const std::string help = run_moert({"run", "--help"}).out;
  for (const char* name : {"MOERT_PLUGIN_PATH", "MOERT_PLUGINS", "MOERT_LOG", "MOERT_LOG_FILE",
                           "MOERT_DEVICE", "MOERT_NUM_THREADS", "NO_COLOR"})
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
