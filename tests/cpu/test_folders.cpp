// Every folder of tests/data that has golden numbers, its experts, shared experts and routers by cpu.simd.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/rig.hpp"
#include "unit/golden/support.hpp"

namespace moert::golden {
namespace {

// As in unit/golden: with every row f32 there is nothing to round but the sums.
constexpr double kF32Tolerance = 1e-5;

// By cpu.simd what `word` names, the rest by the oracle.
runtime::RunReport run_simd(const std::string& folder, const std::string& word,
                            const fs::path& output = {}) {
  spec::Run run = plain_run(folder);
  run.layers[word] = "cpu.simd";
  run.output = output;
  run.expect.emplace();
  run.expect->file = run.hidden_states;
  return runtime::run(session(2), families(), run);
}

bool is_served(const runtime::LayerReport& layer, const std::string& word) {
  for (const auto& [kind, candidate] : layer.candidates)
    if (kind == word) return candidate == "cpu.simd";
  return word == "shared_experts";  // a layer may have none
}

bool is_f32(const weights::Checkpoint& golden, int64_t layer) {
  const auto* info = golden.find("layers." + std::to_string(layer) + ".hidden_states");
  return info != nullptr && info->dtype == MOERT_DTYPE_F32;
}

class SimdFolder : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (cpu::testing::level_is_absent()) GTEST_SKIP() << "this machine does not have the level";
    const spec::Model model = families().resolve(data_folder() / GetParam());
    if (!model.unsupported.empty()) GTEST_SKIP() << model.unsupported.front();
  }
  static void expect_numbers(const std::string& folder, const std::string& word);
};

void SimdFolder::expect_numbers(const std::string& folder, const std::string& word) {
  const weights::Checkpoint golden(golden_file(folder));
  for (const runtime::LayerReport& layer : run_simd(folder, word).layers) {
    SCOPED_TRACE("layer " + std::to_string(layer.layer_id));
    ASSERT_TRUE(layer.comparison.has_value());
    const runtime::Comparison& c = *layer.comparison;
    EXPECT_TRUE(c.passed);
    EXPECT_TRUE(is_served(layer, word));
    EXPECT_LE(c.output.error, is_f32(golden, layer.layer_id) ? kF32Tolerance : c.output_tolerance);
  }
}

TEST_P(SimdFolder, RunsToItsNumbers) { expect_numbers(GetParam(), "routed_experts"); }

TEST_P(SimdFolder, SharesToItsNumbers) { expect_numbers(GetParam(), "shared_experts"); }

TEST_P(SimdFolder, RoutesByTheOraclesBits) {
  const Output ours("simd"), oracle("ref");
  for (const runtime::LayerReport& layer : run_simd(GetParam(), "router", ours.path()).layers) {
    SCOPED_TRACE("layer " + std::to_string(layer.layer_id));
    ASSERT_TRUE(layer.comparison.has_value());
    EXPECT_EQ(layer.comparison->wrong_ids, 0) << layer.comparison->first_wrong_ids;
    EXPECT_TRUE(layer.comparison->passed);
    EXPECT_TRUE(is_served(layer, "router"));
  }
  run(GetParam(), oracle.path());
  const MappedFile got(ours.path()), want(oracle.path());
  ASSERT_FALSE(got.bytes().empty());
  EXPECT_TRUE(
      std::equal(got.bytes().begin(), got.bytes().end(), want.bytes().begin(), want.bytes().end()))
      << "ids, weights or outputs differ";
}

INSTANTIATE_TEST_SUITE_P(All, SimdFolder, testing::ValuesIn(folders()), folder_name);

}  // namespace
}  // namespace moert::golden
