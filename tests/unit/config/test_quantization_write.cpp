// What is written into a config.json of a quantisation is what is read from it.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <moert/error.hpp>
#include <nlohmann/json.hpp>

#include "config/quantization.hpp"
#include "config/quantization_write.hpp"

namespace moert::config {
namespace {
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using spec::FormatGroup;
using spec::Quantization;
using spec::WeightFormat;

class QuantizationWrite : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder = fs::path(::testing::TempDir()) / (std::string("moert_qwrite_") + info->name());
    fs::remove_all(folder);
    fs::create_directories(folder);
    write(R"({"z": 1, "model_type": "olmoe", "eps": 1e-05, "limit": Infinity})");
  }
  void TearDown() override { fs::remove_all(folder); }
  fs::path config() const { return folder / "config.json"; }
  void write(const std::string& text) const { std::ofstream(config()) << text; }

  // The text, and what is read from it.
  std::optional<Quantization> read_again(const std::string& text) const {
    write(text);
    const nlohmann::json json = nlohmann::json::parse(text, nullptr, true, false);
    std::string origin;
    return read_quantization({{"", &json}}, "", config(), &origin);
  }
  fs::path folder;
};

const WeightFormat kFp8Blocks = {"fp8", "block64x32", "group32", "multiply", ""};

TEST_F(QuantizationWrite, ReadsBackAsFp8) {
  write("{}");
  const Quantization wanted = {"fp8", {{{}, kFp8Blocks}}, {"lm_head", "model.layers.0.mlp.gate"}};
  EXPECT_EQ(read_again(write_quantization(config(), wanted)), wanted);
}

TEST_F(QuantizationWrite, ReadsBackAsMxfp4) {
  write("{}");
  const Quantization wanted = {"mxfp4", {{{}, {"mxfp4", "g32", "none", "", ""}}}, {"lm_head"}};
  EXPECT_EQ(read_again(write_quantization(config(), wanted)), wanted);
}

TEST_F(QuantizationWrite, EveryFormatReadsBackAsCompressedTensors) {
  const WeightFormat formats[] = {
      {"fp8", "block64x32", "group128", "divide", ""},  {"fp8", "channel", "token", "divide", ""},
      {"fp8", "tensor", "none", "divide", ""},          {"int8", "channel", "token", "divide", ""},
      {"int4_packed", "g64", "none", "divide", "none"}, {"nvfp4", "g16", "none", "divide", ""},
      {"mxfp4", "g32", "none", "divide", ""},           {"mxfp8", "g32", "none", "divide", ""}};
  Quantization mixed = {"compressed-tensors", {}, {"lm_head"}};
  for (const WeightFormat& format : formats) {
    SCOPED_TRACE(format.kind + " " + format.blocks);
    write("{}");
    const Quantization wanted = {"compressed-tensors", {{{}, format}}, {"lm_head"}};
    EXPECT_EQ(read_again(write_quantization(config(), wanted)), wanted);
    mixed.groups.push_back({{"model.layers." + format.kind + format.blocks}, format});
  }
  write("{}");
  const std::string text = write_quantization(config(), mixed);
  EXPECT_EQ(read_again(text), mixed);
  EXPECT_EQ(Json::parse(text)["quantization_config"]["format"], "mixed-precision");
}

TEST_F(QuantizationWrite, KeepsEverythingElseAndItsOrder) {
  const std::string text = write_quantization(config(), {"fp8", {{{}, kFp8Blocks}}, {}});
  EXPECT_TRUE(
      text.starts_with("{\n  \"z\": 1,\n  \"model_type\": \"olmoe\",\n  \"eps\": 1e-05,\n"
                       "  \"limit\": Infinity,\n  \"quantization_config\": {"))
      << text;
  EXPECT_TRUE(text.ends_with("}\n"));
}

TEST_F(QuantizationWrite, TakesThePlaceOfTheOldOneWhereverItStood) {
  write(R"({"text_config": {"compression_config": {"a": 1}, "b": 2}, "expert_dtype": "fp4"})");
  const Json json = Json::parse(write_quantization(config(), {"fp8", {{{}, kFp8Blocks}}, {}}));
  EXPECT_FALSE(json.contains("expert_dtype"));
  EXPECT_FALSE(json.contains("quantization_config"));
  EXPECT_FALSE(json["text_config"].contains("compression_config"));
  EXPECT_EQ(json["text_config"]["b"], 2);
  EXPECT_EQ(json["text_config"]["quantization_config"]["quant_method"], "fp8");
}

TEST_F(QuantizationWrite, NothingLeavesNoTrace) {
  write(R"({"a": 1, "quantization_config": {"quant_method": "fp8"}})");
  EXPECT_EQ(write_quantization(config(), {}), "{\n  \"a\": 1\n}\n");
}

TEST_F(QuantizationWrite, ExclusionsAreAddedToTheListThatIsThere) {
  write(
      R"({"quantization_config": {"quant_method": "compressed-tensors", "ignore": ["lm_head"]}})");
  const Json json = Json::parse(write_exclusions(config(), {"lm_head", "a.b"}));
  EXPECT_EQ(json["quantization_config"]["ignore"], Json({"lm_head", "a.b"}));
  write(R"({"quantization_config": {"quant_method": "fp8"}})");
  const Json other = Json::parse(write_exclusions(config(), {"a"}));
  EXPECT_EQ(other["quantization_config"]["modules_to_not_convert"], Json({"a"}));
  write("{}");
  EXPECT_THROW(write_exclusions(config(), {"a"}), Error);
}

TEST_F(QuantizationWrite, RefusesWhatAMethodCannotSay) {
  EXPECT_THROW(
      write_quantization(config(), {"fp8", {{{}, {"fp8", "channel", "token", "", ""}}}, {}}),
      Error);
  EXPECT_THROW(
      write_quantization(config(),
                         {"compressed-tensors", {{{}, {"int4_awq", "g128", "none", "", ""}}}, {}}),
      Error);
}

}  // namespace
}  // namespace moert::config
