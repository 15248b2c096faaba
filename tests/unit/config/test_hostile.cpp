// Damaged text of every kind ends in an Error or in a value, never in anything else.
// SPDX-License-Identifier: Apache-2.0
#include <random>

#include "config/config.hpp"
#include "config/json_config.hpp"
#include "config/yaml_node.hpp"
#include "unit/config/support.hpp"

namespace moert::config::test {
namespace {

// Changes some bytes: another byte, one less, one more, a piece repeated, the rest cut off.
std::string damaged(const std::string& text, std::mt19937_64& engine) {
  static const std::string kLikely = "[]{}:,-?&*!|>'\"%@`#~ \n\t0123456789.eE+xo\\\x80\xff";
  const auto below = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(engine);
  };
  std::string result = text;
  for (size_t changes = 1 + below(6); changes > 0 && !result.empty(); --changes) {
    const size_t at = below(result.size());
    switch (below(6)) {
      case 0: result.erase(at, 1 + below(8)); break;
      case 1: result.insert(at, 1, kLikely[below(kLikely.size())]); break;
      case 2: result.insert(at, result.substr(at, below(40))); break;
      case 3: result.resize(at); break;
      default: result[at] = kLikely[below(kLikely.size())];
    }
  }
  return result;
}

template <class Action>
bool refuses(const Action& action) {
  try {
    action();
    return false;
  } catch (const Error& error) {
    EXPECT_FALSE(error.problem().empty() || error.place().empty() || error.remedy().empty())
        << error.what();
    return true;
  }
}

class Hostile : public ::testing::TestWithParam<uint64_t> {};

TEST_P(Hostile, YamlOfEveryKind) {
  const TempFolder folder;
  std::mt19937_64 engine(GetParam());
  int refused = 0;
  for (const char* name : {"runs/olmoe-tiny.yaml", "models/olmoe-tiny.yaml",
                           "families/deepseek_v3.yaml", "families/common.yaml"}) {
    const std::string text = read_file(source_folder() / "configs" / name);
    for (int i = 0; i < 20; ++i) {
      const std::string bad = damaged(text, engine);
      SCOPED_TRACE(bad);
      const fs::path file = folder.write("f/x.yaml", bad);
      refused += refuses([&] { read_run(file); }) ? 1 : 0;
      refused += refuses([&] { read_model(file); }) ? 1 : 0;
      refused += refuses([&] { Families::load({file.parent_path()}); }) ? 1 : 0;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST_P(Hostile, ConfigJson) {
  static const Families families = Families::load({source_folder() / "configs/families"});
  const TempFolder folder;
  std::mt19937_64 engine(GetParam());
  int refused = 0;
  for (const char* name : {"deepseek-v3-f32", "qwen2-moe-f32", "olmoe-f32"}) {
    const std::string text = read_file(source_folder() / "tests/data" / name / "config.json");
    for (int i = 0; i < 30; ++i) {
      const std::string bad = damaged(text, engine);
      SCOPED_TRACE(bad);
      folder.write("config.json", bad);
      refused += refuses([&] { families.resolve(folder.path()); }) ? 1 : 0;
    }
  }
  EXPECT_GT(refused, 10);
}

TEST_P(Hostile, Overrides) {
  std::mt19937_64 engine(GetParam());
  const fs::path run = source_folder() / "configs/runs/olmoe-tiny.yaml";
  int refused = 0;
  for (int i = 0; i < 60; ++i) {
    const Override each = {damaged("capture[0].what[1]", engine),
                           damaged("{file: a, what: [ids, 'x']}", engine), "--set"};
    SCOPED_TRACE(each.key + "=" + each.value);
    refused += refuses([&] { read_run(run, {each}); }) ? 1 : 0;
  }
  EXPECT_GT(refused, 30);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Hostile, ::testing::Range<uint64_t>(0, 8));

}  // namespace
}  // namespace moert::config::test
