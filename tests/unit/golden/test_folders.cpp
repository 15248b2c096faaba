// Every folder of tests/data that has golden numbers, run by the oracle.
// SPDX-License-Identifier: Apache-2.0
#include "unit/golden/numbers.hpp"

namespace moert::golden {
namespace {

void expect_oracle(const runtime::LayerReport& layer) {
  for (const auto& [word, candidate] : layer.candidates)
    if (word == "routed_experts" || word == "router" || word == "shared_experts") {
      EXPECT_EQ(candidate, "cpu.ref") << word;
    }
}

void expect_refused(const std::string& folder, const std::string& reason) {
  try {
    run(folder);
    ADD_FAILURE() << "was run, although: " << reason << again();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::refused) << error.what() << again();
    EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what() << again();
  }
}

class GoldenFolder : public testing::TestWithParam<std::string> {};

TEST_P(GoldenFolder, RunsToItsNumbersOrIsRefusedWithTheReason) {
  const spec::Model model = families().resolve(data_folder() / GetParam());
  const config::FamilyInfo family = family_info(model.family);
  ASSERT_FALSE(model.layers.empty()) << again();
  if (!model.unsupported.empty()) {
    EXPECT_EQ(family.tested, "") << "a family that is not run has no tested numbers" << again();
    return expect_refused(GetParam(), model.unsupported.front());
  }
  EXPECT_FALSE(family.tested.empty()) << family.name << " has golden numbers" << again();
  const weights::Checkpoint golden(golden_file(GetParam()));
  const Output output(GetParam());
  const runtime::RunReport report = run(GetParam(), output.path());
  EXPECT_TRUE(report.checked);
  EXPECT_EQ(report.layers.size(), model.layers.size());
  const weights::Checkpoint got(output.path());
  for (const runtime::LayerReport& layer : report.layers) {
    SCOPED_TRACE("layer " + std::to_string(layer.layer_id) + again());
    expect_oracle(layer);
    expect_numbers(layer, golden);
    EXPECT_EQ(ids_of(got, layer.layer_id), ids_of(golden, layer.layer_id))
        << "slots in another order";
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenFolder, testing::ValuesIn(folders()), folder_name);

class Threads : public testing::TestWithParam<std::string> {};

TEST_P(Threads, OneAndTwoGiveTheSameBits) {
  const Output one("one"), two("two");
  run(GetParam(), one.path(), 1);
  run(GetParam(), two.path(), 2);
  const MappedFile a(one.path()), b(two.path());
  EXPECT_TRUE(std::ranges::equal(a.bytes(), b.bytes())) << again();
}

// Between them: latent width, shared experts, groups, averages, biases, a table of tokens, bf16; rows
// quantised by groups, by rows and in four bits.
INSTANTIATE_TEST_SUITE_P(Some, Threads,
                         testing::Values("deepseek-v3-f32", "deepseek-v4-f32", "gemma4-f32",
                                         "gpt-oss-f32", "longcat-flash-f32",
                                         "nemotron-h-latent-f32", "olmoe-bf16", "phimoe-f32",
                                         "deepseek-v4-fp4", "qwen3-moe-int8", "qwen3-moe-nvfp4"),
                         folder_name);

}  // namespace
}  // namespace moert::golden
