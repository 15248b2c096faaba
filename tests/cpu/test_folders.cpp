// Every folder of tests/data that has golden numbers, its experts computed by cpu.simd wherever it accepts.
// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "cpu/rig.hpp"
#include "unit/golden/support.hpp"

namespace moert::golden {
namespace {

// As in unit/golden: with every row f32 there is nothing to round but the sums.
constexpr double kF32Tolerance = 1e-5;

runtime::RunReport run_simd(const std::string& folder) {
  spec::Run run = plain_run(folder);
  run.layers["routed_experts"] = "cpu.simd";
  run.expect.emplace();
  run.expect->file = run.hidden_states;
  return runtime::run(session(2), families(), run);
}

bool is_f32(const weights::Checkpoint& golden, int64_t layer) {
  const auto* info = golden.find("layers." + std::to_string(layer) + ".hidden_states");
  return info != nullptr && info->dtype == MOERT_DTYPE_F32;
}

class SimdFolder : public testing::TestWithParam<std::string> {};

TEST_P(SimdFolder, RunsToItsNumbersOrIsRefusedForItsFormat) {
  if (cpu::testing::level_is_absent()) GTEST_SKIP() << "this machine does not have the level";
  const spec::Model model = families().resolve(data_folder() / GetParam());
  if (!model.unsupported.empty()) GTEST_SKIP() << model.unsupported.front();
  const weights::Checkpoint golden(golden_file(GetParam()));
  try {
    for (const runtime::LayerReport& layer : run_simd(GetParam()).layers) {
      SCOPED_TRACE("layer " + std::to_string(layer.layer_id));
      ASSERT_TRUE(layer.comparison.has_value());
      const runtime::Comparison& c = *layer.comparison;
      EXPECT_TRUE(c.passed);
      for (const auto& [word, candidate] : layer.candidates)
        if (word == "routed_experts") {
          EXPECT_EQ(candidate, "cpu.simd");
        }
      EXPECT_LE(c.output.error,
                is_f32(golden, layer.layer_id) ? kF32Tolerance : c.output_tolerance);
    }
  } catch (const Error& error) {
    ASSERT_EQ(error.fault(), Fault::refused) << error.what();
    const std::string text = error.what();
    EXPECT_TRUE(text.find("weights of scheme '") != std::string::npos ||
                text.find("rows that are quantised") != std::string::npos)
        << text;
    for (const char* served : {"-f32", "-bf16", "gpt-oss-mxfp4", "olmoe-tiny"})
      EXPECT_EQ(GetParam().find(served), std::string::npos)
          << "has a format that is served: " << text;
  }
}

INSTANTIATE_TEST_SUITE_P(All, SimdFolder, testing::ValuesIn(folders()), folder_name);

}  // namespace
}  // namespace moert::golden
