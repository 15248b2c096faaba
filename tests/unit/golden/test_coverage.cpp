// What families say about their numbers is what lies in tests/data, and that stays small.
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <set>

#include "unit/golden/support.hpp"

namespace moert::golden {
namespace {

// Family -> who computed its golden numbers.
std::map<std::string, std::set<std::string>> origins() {
  std::map<std::string, std::set<std::string>> found;
  for (const std::string& folder : folders())
    found[families().resolve(data_folder() / folder).family].insert(origin_of(folder));
  return found;
}

TEST(GoldenCoverage, AFamilysWordIsTheBestOfWhatLiesThere) {
  const auto found = origins();
  size_t tested = 0;
  for (const config::FamilyInfo& family : families().list()) {
    if (!family.unsupported.empty()) continue;
    const auto there = found.find(family.name);
    if (there == found.end()) {
      EXPECT_EQ(family.tested, "") << family.name << ": no folder of tests/data proves it";
      continue;
    }
    ++tested;
    EXPECT_EQ(family.tested, there->second.contains("transformers") ? "transformers" : "reference")
        << family.name;
  }
  EXPECT_GT(tested, 60u) << "the folders were not found";
}

TEST(GoldenCoverage, MetadataSaysWhoComputedTheNumbers) {
  for (const std::string& folder : folders()) {
    const auto metadata = weights::Checkpoint(golden_file(folder)).metadata();
    EXPECT_NE(metadata.contains("reference"), metadata.contains("transformers")) << folder;
  }
}

TEST(GoldenCoverage, FoldersAreSmall) {
  const std::set<std::string> older = {
      "deepseek-v3-bf16", "deepseek-v3-f32", "mixtral-bf16",        "mixtral-f32",
      "olmoe-bf16",       "olmoe-f32",       "olmoe-tiny",          "qwen2-moe-f32",
      "qwen3-moe-bf16",   "qwen3-moe-f32",   "qwen3-moe-fused-f32",
  };
  for (const std::string& folder : folders()) {
    uint64_t bytes = 0;
    for (const fs::directory_entry& file : fs::directory_iterator(data_folder() / folder))
      bytes += file.file_size();
    if (!older.contains(folder)) {
      EXPECT_LE(bytes, 150'000u) << folder;
    }
  }
}

}  // namespace
}  // namespace moert::golden
