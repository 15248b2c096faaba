// `moert quantize`: every scheme, there and back; what it refuses; and that nothing half-written stays.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "program.hpp"
#include "support/safetensors_edit.hpp"
#include "weights/safetensors.hpp"

namespace moert::testing {
namespace {

namespace fs = std::filesystem;

const char* const kTiny = "olmoe-tiny";

Ended quantize(const fs::path& from, const fs::path& to, const std::string& scheme,
               const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"quantize", from.string(), to.string(), "--scheme", scheme};
  words.insert(words.end(), more.begin(), more.end());
  return run_moert(words);
}

void expect_complete(const fs::path& folder) {
  const Ended ended = run_moert({"model", "inspect", folder.string(), "--json"});
  ASSERT_TRUE(ended.code == 0 || ended.code == 4) << MOERT_SHOW(ended);  // 4: it is not run
  EXPECT_EQ(ended.json().at("complete"), true) << MOERT_SHOW(ended);
}

// No warning either: config and files agree.
void expect_readable(const fs::path& folder) {
  expect_complete(folder);
  const Ended ended = run_moert({"explain", folder.string()});
  EXPECT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  EXPECT_EQ(ended.err, "") << MOERT_SHOW(ended);
}

void expect_same_folders(const fs::path& a, const fs::path& b) {
  EXPECT_EQ(files_below(a), files_below(b));
  for (const std::string& file : files_below(a))
    EXPECT_TRUE(read_file(a / file) == read_file(b / file)) << file;
}

Json config_of(const fs::path& folder) { return Json::parse(read_file(folder / "config.json")); }

std::string golden(const std::string& name) {
  return (data_folder(name) / "golden.safetensors").string();
}

double largest_output_error(const Json& report) {
  double largest = 0;
  for (const Json& layer : report.at("layers"))
    if (!layer.at("change").is_null())
      largest = std::max(largest, layer.at("change").at("relative_output_error").get<double>());
  return largest;
}

struct Scheme {
  const char* word;
  const char* method;
  double weight_error, output_error;  // relative; most
};

class EveryScheme : public ::testing::TestWithParam<Scheme> {};

TEST_P(EveryScheme, IsWrittenReadDecodedAndWrittenAgainTheSame) {
  const TemporaryFolder folder;
  const auto [word, method, weight_error, output_error] = GetParam();
  const Ended made = quantize(data_folder(kTiny), folder / "made", word,
                              {"--json", "--hidden-states", golden(kTiny)});
  ASSERT_EQ(made.code, 0) << MOERT_SHOW(made);
  const Json report = made.json();
  EXPECT_EQ(report.at("quant_method"), method);
  EXPECT_EQ(report.at("total").at("weights"), 6 * 16 * 3);
  const double error = report.at("total").at("relative_rms_error");
  EXPECT_GT(error, weight_error / 4);
  EXPECT_LT(error, weight_error);
  EXPECT_GT(largest_output_error(report), 0);
  EXPECT_LT(largest_output_error(report), output_error);
  EXPECT_EQ(config_of(folder / "made").at("quantization_config").at("quant_method"), method);
  expect_readable(folder / "made");

  const Ended decoded = quantize(folder / "made", folder / "decoded", "f32", {"--json"});
  ASSERT_EQ(decoded.code, 0) << MOERT_SHOW(decoded);
  EXPECT_EQ(decoded.json().at("total").at("max_error"), 0);
  EXPECT_FALSE(config_of(folder / "decoded").contains("quantization_config"));
  expect_readable(folder / "decoded");

  // The same numbers; exponents and codes may share them out in another way.
  const Ended again = quantize(folder / "decoded", folder / "again", word, {"--json"});
  ASSERT_EQ(again.code, 0) << MOERT_SHOW(again);
  EXPECT_EQ(again.json().at("total").at("max_error"), 0);
  ASSERT_EQ(quantize(folder / "again", folder / "decoded_again", "f32").code, 0);
  expect_same_folders(folder / "decoded", folder / "decoded_again");

  ASSERT_EQ(quantize(data_folder(kTiny), folder / "twice", word).code, 0);
  expect_same_folders(folder / "made", folder / "twice");
  const Ended copied = quantize(folder / "made", folder / "copied", word, {"--json"});
  ASSERT_EQ(copied.code, 0) << MOERT_SHOW(copied);
  EXPECT_EQ(copied.json().at("total").at("unchanged"), 6 * 16 * 3);
  expect_same_folders(folder / "made", folder / "copied");
}

INSTANTIATE_TEST_SUITE_P(All, EveryScheme,
                         ::testing::Values(Scheme{"fp8.block128x128", "fp8", 0.03, 0.05},
                                           Scheme{"fp8.block32x16", "fp8", 0.03, 0.05},
                                           Scheme{"fp8.channel", "compressed-tensors", 0.03, 0.05},
                                           Scheme{"fp8.tensor", "compressed-tensors", 0.03, 0.05},
                                           Scheme{"mxfp8", "compressed-tensors", 0.03, 0.05},
                                           Scheme{"mxfp4", "compressed-tensors", 0.13, 0.15},
                                           Scheme{"nvfp4", "compressed-tensors", 0.11, 0.12},
                                           Scheme{"int8.channel", "compressed-tensors", 0.01, 0.02},
                                           Scheme{"int4.g32", "compressed-tensors", 0.11, 0.12}),
                         [](const ::testing::TestParamInfo<Scheme>& scheme) {
                           std::string name = scheme.param.word;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST(Quantize, EveryTinyCheckpointIsConvertedOrRefusedWithAReason) {
  size_t converted = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(source_folder() / "tests/data")) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with("-f32") || name == "dbrx-f32") continue;  // refused: see below
    SCOPED_TRACE(name);
    const TemporaryFolder folder;
    const Ended made = quantize(entry.path(), folder / "made", "fp8.channel");
    ASSERT_EQ(made.code, 0) << MOERT_SHOW(made);
    expect_complete(folder / "made");
    const Ended decoded = quantize(folder / "made", folder / "decoded", "f32");
    ASSERT_EQ(decoded.code, 0) << MOERT_SHOW(decoded);
    ++converted;
  }
  EXPECT_GT(converted, 60u);
}

class QuantisedSource : public ::testing::TestWithParam<const char*> {};

TEST_P(QuantisedSource, IsDecodedWholeAndComputesAlmostTheSame) {
  const TemporaryFolder folder;
  const Ended made = quantize(data_folder(GetParam()), folder / "made", "f32", {"--json"});
  ASSERT_EQ(made.code, 0) << MOERT_SHOW(made);
  EXPECT_EQ(made.json().at("quant_method"), nullptr);
  EXPECT_EQ(made.json().at("total").at("max_error"), 0);
  const Json config = config_of(folder / "made");
  EXPECT_FALSE(config.contains("quantization_config"));
  EXPECT_FALSE(config.contains("expert_dtype"));
  expect_readable(folder / "made");
  for (const weights::TensorInfo& info : weights::Checkpoint(folder / "made").tensors())
    EXPECT_TRUE(info.dtype == MOERT_DTYPE_F32 || info.dtype == MOERT_DTYPE_BF16 ||
                info.dtype == MOERT_DTYPE_F16 || info.dtype == MOERT_DTYPE_I64 ||
                info.dtype == MOERT_DTYPE_I32)
        << info.name;
}

INSTANTIATE_TEST_SUITE_P(All, QuantisedSource,
                         ::testing::Values("deepseek-v3-fp8", "deepseek-v3-fp8-mixed",
                                           "deepseek-v4-fp4", "gpt-oss-mxfp4", "kimi-k25-int4",
                                           "llama4-fp8-dynamic", "mixtral-awq", "mixtral-gptq",
                                           "qwen3-5-moe-fp8", "qwen3-moe-fp8", "qwen3-moe-int8",
                                           "qwen3-moe-mxfp8", "qwen3-moe-nvfp4",
                                           "qwen3-moe-nvfp4-ct"),
                         [](const ::testing::TestParamInfo<const char*>& folder) {
                           std::string name = folder.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Quantize, GptOssGetsTheLayoutOfItsRelease) {
  const TemporaryFolder folder;
  ASSERT_EQ(quantize(data_folder("gpt-oss-mxfp4"), folder / "plain", "bf16").code, 0);
  const Ended made = quantize(folder / "plain", folder / "made", "mxfp4", {"--json"});
  ASSERT_EQ(made.code, 0) << MOERT_SHOW(made);
  EXPECT_EQ(made.json().at("quant_method"), "mxfp4");
  const weights::Checkpoint released(data_folder("gpt-oss-mxfp4")), ours(folder / "made");
  for (const weights::TensorInfo& info : released.tensors()) {
    const weights::TensorInfo* found = ours.find(info.name);
    ASSERT_NE(found, nullptr) << info.name;
    EXPECT_EQ(found->shape, info.shape) << info.name;
    EXPECT_EQ(found->dtype, info.dtype) << info.name;
  }
  expect_readable(folder / "made");
}

TEST(Quantize, StackedExpertsGetTensorsOfTheirOwnWhereTheFamilyHasThem) {
  const TemporaryFolder folder;
  ASSERT_EQ(quantize(data_folder("qwen3-moe-fused-f32"), folder / "fused", "fp8.block128x128").code,
            0);
  ASSERT_EQ(quantize(data_folder("qwen3-moe-f32"), folder / "single", "fp8.block128x128").code, 0);
  const weights::Checkpoint fused(folder / "fused"), single(folder / "single");
  for (const weights::TensorInfo& info : single.tensors()) {
    const weights::TensorInfo* found = fused.find(info.name);
    ASSERT_NE(found, nullptr) << info.name;
    ASSERT_EQ(found->bytes, info.bytes);
    EXPECT_EQ(std::memcmp(fused.data(*found), single.data(info), info.bytes), 0) << info.name;
  }
}

TEST(Quantize, WritesShardsAndCopiesTheOtherFiles) {
  const TemporaryFolder folder;
  fs::copy(data_folder(kTiny), folder / "source");
  write_file(folder / "source/tokenizer.json", "{}");
  write_file(folder / "source/.hidden", "x");
  const Ended made =
      quantize(folder / "source", folder / "made", "mxfp4", {"--shard-size", "400KB", "--json"});
  ASSERT_EQ(made.code, 0) << MOERT_SHOW(made);
  const int64_t files = made.json().at("files");
  EXPECT_GE(files, 4);
  EXPECT_EQ(files_below(folder / "made").size(), static_cast<size_t>(files) + 3);
  EXPECT_EQ(read_file(folder / "made/tokenizer.json"), "{}");
  EXPECT_FALSE(fs::exists(folder / "made/golden.safetensors"));
  EXPECT_FALSE(fs::exists(folder / "made/.hidden"));
  expect_readable(folder / "made");
  const Ended one = quantize(folder / "made", folder / "one", "mxfp4");
  ASSERT_EQ(one.code, 0) << MOERT_SHOW(one);
  EXPECT_TRUE(fs::exists(folder / "one/model.safetensors"));
}

TEST(Quantize, ExcludedModulesStayAsTheyAre) {
  const TemporaryFolder folder;
  const Ended made =
      quantize(data_folder(kTiny), folder / "made", "fp8.block128x128",
               {"--exclude", "model.layers.0", "--exclude", "re:.*experts\\.3\\.", "--json"});
  ASSERT_EQ(made.code, 0) << MOERT_SHOW(made);
  EXPECT_EQ(made.json().at("weights_excluded"), 16 * 3 + 5 * 3);
  EXPECT_EQ(made.json().at("notes").size(), 1u) << MOERT_SHOW(made);  // experts differ in format
  expect_readable(folder / "made");
  const weights::Checkpoint from(data_folder(kTiny)), to(folder / "made");
  const auto same = [&](const std::string& name) {
    return to.find(name) != nullptr && to.find(name)->bytes == from.find(name)->bytes &&
           std::memcmp(to.data(*to.find(name)), from.data(*from.find(name)),
                       from.find(name)->bytes) == 0;
  };
  EXPECT_TRUE(same("model.layers.0.mlp.experts.5.up_proj.weight"));
  EXPECT_TRUE(same("model.layers.1.mlp.experts.3.down_proj.weight"));
  EXPECT_FALSE(same("model.layers.1.mlp.experts.4.down_proj.weight"));
  const Json skipped =
      config_of(folder / "made").at("quantization_config").at("modules_to_not_convert");
  const auto listed = [&](const std::string& name) {
    return std::find(skipped.begin(), skipped.end(), Json(name)) != skipped.end();
  };
  EXPECT_TRUE(listed("model.layers.1.mlp.experts.3.down_proj"));
  EXPECT_FALSE(listed("model.layers.1.mlp.experts.4.down_proj"));
  EXPECT_TRUE(listed("model.layers.1.mlp.gate"));
  EXPECT_TRUE(listed("lm_head"));
}

TEST(Quantize, SomeExpertsGetAnotherScheme) {
  const TemporaryFolder folder;
  write_file(folder / "hot.yaml",
             "apiVersion: moert/v1\nkind: Experts\nmetadata: { name: hot }\nspec:\n  experts:\n"
             "    - { layers: 0-3, experts: [0, 5], scheme: bf16 }\n"
             "    - { experts: [7], scheme: fp8.block32x32 }\n");
  const Ended made = quantize(data_folder(kTiny), folder / "made", "mxfp4",
                              {"--experts", (folder / "hot.yaml").string()});
  ASSERT_EQ(made.code, 0) << MOERT_SHOW(made);
  expect_readable(folder / "made");
  const weights::Checkpoint to(folder / "made");
  const std::string layer = "model.layers.2.mlp.experts.";
  EXPECT_EQ(to.find(layer + "5.up_proj.weight")->dtype, MOERT_DTYPE_BF16);
  EXPECT_EQ(to.find(layer + "7.up_proj.weight")->dtype, MOERT_DTYPE_F8_E4M3FN);
  EXPECT_NE(to.find(layer + "7.up_proj.weight_scale"), nullptr);
  EXPECT_NE(to.find(layer + "6.up_proj.weight_packed"), nullptr);
  EXPECT_EQ(config_of(folder / "made").at("quantization_config").at("format"), "mixed-precision");
}

// Rows are quantised by several methods then, which one word does not tell.
TEST(Quantize, SeveralFormatsThatQuantiseRowsRunAsTheyAre) {
  const TemporaryFolder folder;
  for (const auto& [all, some] : {std::pair("fp8.channel", "int8.channel"),
                                  std::pair("fp8.block1x128", "fp8.block128x128")}) {
    write_file(folder / "hot.yaml",
               "apiVersion: moert/v1\nkind: Experts\nmetadata: { name: hot }\nspec:\n  experts:\n"
               "    - { layers: 0, experts: [0, 5], scheme: " +
                   std::string(some) + " }\n");
    const fs::path made = folder / all;
    ASSERT_EQ(
        quantize(data_folder(kTiny), made, all, {"--experts", (folder / "hot.yaml").string()}).code,
        0);
    const Ended run =
        run_moert({"run", run_file(kTiny), "--set", "model.checkpoint=" + made.string(), "--set",
                   "expect=null", "--set", "capture=null", "--set", "outputs=null"});
    EXPECT_EQ(run.code, 0) << MOERT_SHOW(run);
    EXPECT_TRUE(contains(run.out, "cpu.simd")) << MOERT_SHOW(run);
  }
}

// What is in the scheme but for a tensor that the new config has no place for: copied without it, numbers
// were those of other groups, or off by a constant.
TEST(Quantize, ASecondScaleIsNotLeftBehind) {
  const TemporaryFolder folder;
  ASSERT_EQ(quantize(data_folder("qwen3-moe-f32"), folder / "tensor", "fp8.tensor").code, 0);
  SafetensorsEdit edit(folder / "tensor");
  for (const std::string& name : edit.names())
    if (name.ends_with(".weight_scale"))
      edit.add_f32(name.substr(0, name.size() - 6) + "_global_scale", {1}, {0.25f});
  edit.write(folder / "tensor/model.safetensors");
  write_file(folder / "hot.yaml",
             "apiVersion: moert/v1\nkind: Experts\nmetadata: { name: hot }\nspec:\n  experts:\n"
             "    - { experts: [0], scheme: fp8.channel }\n");
  const Ended made = quantize(folder / "tensor", folder / "made", "fp8.tensor",
                              {"--experts", (folder / "hot.yaml").string(), "--hidden-states",
                               golden("qwen3-moe-f32"), "--json"});
  ASSERT_EQ(made.code, 0) << MOERT_SHOW(made);
  EXPECT_LT(largest_output_error(made.json()), 0.2) << MOERT_SHOW(made);
}

// A file beside the config that the model is not read from says nothing of formats.
TEST(Quantize, AnotherConfigStaysAsItIs) {
  const TemporaryFolder folder;
  fs::copy(data_folder("qwen3-moe-fp8"), folder / "source");
  write_file(folder / "source/params.json", "{\"dim\": 32}");
  const Ended made =
      quantize(folder / "source", folder / "made", "bf16", {"--exclude", "re:.*experts\\.0\\..*"});
  ASSERT_EQ(made.code, 0) << MOERT_SHOW(made);
  EXPECT_EQ(read_file(folder / "made/params.json"), "{\"dim\": 32}");
  expect_readable(folder / "made");
}

void expect_refused(const Ended& ended, int code, const std::string& part, const fs::path& folder,
                    size_t files = 0) {
  EXPECT_EQ(ended.code, code) << MOERT_SHOW(ended);
  EXPECT_EQ(ended.out, "") << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.err, part)) << part << MOERT_SHOW(ended);
  EXPECT_EQ(files_below(folder).size(), files);
}

TEST(Quantize, RefusesWhatMakesNoSense) {
  const TemporaryFolder folder;
  const fs::path tiny = data_folder(kTiny), out = folder / "out";
  const auto refused = [&](const Ended& ended, int code, const std::string& part) {
    expect_refused(ended, code, part, folder.path());
  };
  refused(quantize(tiny, out, "mxfp5"), 2, "did you mean 'mxfp4'?");
  refused(quantize(tiny, out, "fp8.block0x128"), 2, "unknown scheme");
  refused(quantize(tiny, out, "int4.g64"), 2, "rows of 96 are no whole groups of 64");
  refused(quantize(data_folder("gpt-oss-mxfp4"), out, "nvfp4"), 2, "all experts in one tensor");
  refused(quantize(data_folder("gpt-oss-mxfp4"), out, "fp8.block32x32"), 2, "take turns");
  refused(quantize(data_folder("dbrx-f32"), out, "fp8.channel"), 2, "lie across experts");
  refused(quantize(tiny, out, "mxfp4", {"--exclude", "nothing"}), 2, "fits no weight");
  refused(quantize(tiny, out, "mxfp4", {"--exclude", "re:("}), 2, "is not one");
  refused(quantize(tiny, out, "mxfp4", {"--shard-size", "5"}), 2, "no size of a file");
  refused(quantize(tiny, out, "mxfp4", {"--hidden-states", "absent"}), 6, "absent");
  refused(quantize(tiny, tiny, "mxfp4"), 2, "same folder");
  refused(quantize(tiny, tiny / "inside", "mxfp4"), 2, "inside the source");
  refused(quantize(folder / "absent", out, "mxfp4"), 2, "no such folder");
  refused(run_moert({"quantize", tiny.string(), out.string()}), 2, "--scheme");
  refused(run_moert({"quantize", tiny.string(), "--scheme", "mxfp4"}), 2,
          "argument DST is missing");
  EXPECT_FALSE(fs::exists(tiny / "inside"));
}

TEST(Quantize, LeavesAFolderThatIsThere) {
  const TemporaryFolder folder;
  write_file(folder / "out/mine", "x");
  expect_refused(quantize(data_folder(kTiny), folder / "out", "mxfp4"), 2, "not empty",
                 folder.path(), 1);
  EXPECT_EQ(read_file(folder / "out/mine"), "x");
}

TEST(Quantize, NamesAWeightThatIsNoNumber) {
  const TemporaryFolder folder, output;
  fs::copy(data_folder("qwen3-moe-f32"), folder / "source");
  SafetensorsEdit edit(folder / "source");
  const std::vector<std::string> names = edit.names();
  const std::string name = *std::find_if(names.begin(), names.end(), [](const std::string& each) {
    return contains(each, "experts.3.") && each.ends_with(".weight");
  });
  const float bad = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(edit.at(name).data.data() + 8, &bad, sizeof bad);
  edit.write(folder / "source/model.safetensors");
  for (const char* scheme : {"fp8.channel", "bf16"}) {
    const Ended ended = quantize(folder / "source", output / "out", scheme);
    expect_refused(ended, 6, name, output.path());
    EXPECT_TRUE(contains(ended.err, "nan at [0, 2]")) << MOERT_SHOW(ended);
  }
}

TEST(Quantize, InterruptedItLeavesNothing) {
  size_t interrupted = 0;
  for (int delay = 20; delay < 400; delay += 20) {
    const TemporaryFolder folder;
    const Ended ended =
        run_moert({"quantize", data_folder(kTiny).string(), (folder / "out").string(), "--scheme",
                   "mxfp4", "--hidden-states", golden(kTiny)},
                  {.interrupt_after_ms = delay});
    if (fs::exists(folder / "out")) {  // also where the signal came after the last step
      expect_complete(folder / "out");
      continue;
    }
    ++interrupted;
    EXPECT_TRUE(ended.code == 130 || ended.signal == 2) << MOERT_SHOW(ended);
    if (ended.code == 130) {  // else the program had not begun
      EXPECT_TRUE(fs::is_empty(folder.path())) << files_below(folder.path()).front();
    }
  }
  EXPECT_GT(interrupted, 2u);
}

TEST(Quantize, AFullDiskIsAnErrorAndLeavesNothing) {
  const TemporaryFolder folder;
  const Ended ended = run_moert(
      {"--version"},
      {.shell = " >/dev/null; ulimit -f 1000; exec " + std::string(MOERT_PROGRAM) + " quantize " +
                data_folder(kTiny).string() + " " + (folder / "out").string() + " --scheme f32"});
  EXPECT_EQ(ended.code, 5) << MOERT_SHOW(ended);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace moert::testing
