// What families say about their numbers is what lies in tests/data, and that stays small.
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <set>

#include "unit/golden/support.hpp"
#include "weights/plan.hpp"

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

// Kinds of weights, and what remains of rows before them, that some folder has.
TEST(GoldenCoverage, EveryFormatHasAFolder) {
  std::map<std::string, std::string> found;  // scheme -> folder
  for (const std::string& folder : folders()) {
    const spec::Model model = families().resolve(data_folder() / folder);
    if (!model.unsupported.empty()) continue;
    const weights::Checkpoint checkpoint(data_folder() / folder);
    const spec::Tensors tensors = families().tensors(model);
    const weights::Plan plan = weights::make_plan(model, tensors, checkpoint);
    for (const weights::Format& format : plan.formats) found.emplace(format.scheme.text(), folder);
    if (model.quantization) {
      EXPECT_EQ(plan.warnings, std::vector<std::string>{}) << folder;
      EXPECT_GT(plan.formats.size(), 0u) << folder;
    }
  }
  std::string all;
  for (const auto& [scheme, folder] : found) all += scheme + "   of " + folder + "\n";
  for (const char* scheme :
       {"f32", "bf16", "fp8_e4m3fn.block128x128.f32, activations group128",
        "fp8_e4m3fn.block128x128.bf16, activations group128",
        "fp8_e4m3fn.block128x128.e8m0, activations group128_ue8m0",
        "fp8_e4m3fn.channel.bf16, activations token",
        "fp8_e4m3fn.block1x32.e8m0, activations mxfp8", "mxfp4.g32.e8m0",
        "mxfp4.g32.e8m0, activations group128_ue8m0",
        "nvfp4.g16.e4m3fn, activations nvfp4, global multiply",
        "nvfp4.g16.e4m3fn, activations nvfp4, global divide",
        "int8.channel.bf16, activations token", "int4_packed.g32.bf16, zeros none",
        "int4_gptq.g32.f16, zeros plus_one", "int4_awq.g32.f16, zeros stored"})
    EXPECT_TRUE(found.contains(scheme)) << "no folder has " << scheme << "; there are\n" << all;
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
