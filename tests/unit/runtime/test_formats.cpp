// What a run asks of formats, and what is said of those that were found. Checkpoints of tests/data are edited.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/formats.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>

#include <moert/error.hpp>

#include "config/config.hpp"
#include "runtime/explain.hpp"
#include "runtime/model.hpp"
#include "runtime/session.hpp"
#include "support/safetensors_edit.hpp"
#include "util/file.hpp"

namespace moert::runtime {
namespace {

namespace fs = std::filesystem;
using moert::testing::SafetensorsEdit;

TEST(Formats, ASchemeIsNamedByItselfOrByItsBeginning) {
  const std::string scheme = "fp8_e4m3fn.block128x128.f32";
  for (const char* asked :
       {"fp8", "fp8_e4m3fn", "fp8_e4m3fn.block128x128", "fp8_e4m3fn.block128x128.f32"})
    EXPECT_TRUE(names_scheme(asked, scheme)) << asked;
  for (const char* asked : {"fp", "fp8_e4m3", "fp8_e4m3fn.block128", "bf16", "e4m3fn", "mxfp4",
                            "fp8_e4m3fn.block128x128.f32.x"})
    EXPECT_FALSE(names_scheme(asked, scheme)) << asked;
}

TEST(Formats, RowsAreQuantisedInOneWayOrMixed) {
  const auto use = [](const char* word, const char* activations) {
    FormatUse one;
    one.word = word;
    if (*activations != '\0') one.scheme.options = {{"global", "x"}, {"activations", activations}};
    return one;
  };
  EXPECT_EQ(act_scheme_of({}, "quant"), "none");
  EXPECT_EQ(act_scheme_of({use("quant", "")}, "quant"), "none");
  EXPECT_EQ(act_scheme_of({use("quant", "token"), use("shared_quant", "")}, "quant"), "token");
  EXPECT_EQ(act_scheme_of({use("quant", "token"), use("shared_quant", "")}, "shared_quant"),
            "none");
  EXPECT_EQ(act_scheme_of({use("quant", "token"), use("quant", "token")}, "quant"), "token");
  EXPECT_EQ(act_scheme_of({use("quant", "token"), use("quant", "")}, "quant"), "mixed");
}

// A copy of a folder of tests/data, and a model of it.
class FormatsOfModels : public ::testing::Test {
 protected:
  FormatsOfModels() {
    SessionOptions options;
    options.threads = 1;
    options.log = [this](LogLevel level, std::string_view, std::string_view message) {
      if (level == LogLevel::warn) warnings.emplace_back(message);
    };
    session.emplace(options);
  }
  void copy(const std::string& name) {
    like = fs::path(MOERT_SOURCE_DIR) / "tests/data" / name;
    const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder = fs::path(::testing::TempDir()) / ("moert_formats_" + name + "_" + test->name());
    edit = SafetensorsEdit(like);
  }
  Model& model(const std::string& quant = "from-checkpoint", const std::string& pinned = {}) {
    edit.write_folder(folder, like);
    spec::Model spec = families().resolve(folder);
    for (spec::MoELayer& layer : spec.layers) layer.scheme = pinned;
    if (forget) spec.quantization.reset();
    spec::Tensors rules = families().tensors(spec);
    ModelSettings settings;
    settings.device = "cpu";
    settings.quant = quant;
    settings.max_tokens = 1;
    made = std::make_unique<Model>(*session, std::move(spec), std::move(rules), settings);
    return *made;
  }
  static const config::Families& families() {
    static const config::Families it =
        config::Families::load({fs::path(MOERT_SOURCE_DIR) / "configs/families"});
    return it;
  }
  void expect_error(Fault fault, const std::vector<std::string>& parts,
                    const std::function<void()>& body) {
    try {
      body();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), fault) << error.what();
      for (const std::string& part : parts)
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
            << "'" << part << "' in:\n"
            << error.what();
    }
  }
  void make_nan(const std::string& name) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(edit.at(name).data.data(), &nan, sizeof nan);
  }

  std::vector<std::string> warnings;
  std::optional<Session> session;
  fs::path like, folder;
  SafetensorsEdit edit;
  bool forget = false;  // what the config announces
  std::unique_ptr<Model> made;
};

const std::string kScaleName = "model.layers.1.mlp.experts.2.up_proj.weight_scale_inv";

// Nothing of the weights was read yet: the NaN in a scale is not what is told.
TEST_F(FormatsOfModels, AnOptionThatContradictsIsToldBeforeAnyWeightIsRead) {
  copy("deepseek-v3-fp8");
  make_nan(kScaleName);
  for (const char* quant : {"bf16", "mxfp4", "fp8_e5m2", "fp8_e4m3fn.channel"})
    expect_error(
        Fault::usage,
        {"the run asks for scheme '" + std::string(quant) + "'", "'fp8_e4m3fn.block128x128.f32'",
         "experts.0.", "weight_scale_inv", "quant: from-checkpoint"},
        [&] { model(quant).load(); });
  for (const char* quant : {"from-checkpoint", "fp8", "fp8_e4m3fn.block128x128.f32"})
    EXPECT_NO_THROW(model(quant)) << quant;
}

TEST_F(FormatsOfModels, AScaleThatIsNoNumberIsRefusedAtLoadWithItsWeight) {
  copy("deepseek-v3-fp8");
  make_nan(kScaleName);
  Model& made_so = model();
  expect_error(Fault::input,
               {"model.layers.1.mlp.experts.2.up_proj.weight", "the scale at [0, 0] is nan",
                "expected a finite number"},
               [&] { made_so.load(); });
}

TEST_F(FormatsOfModels, APinnedSchemeMustBeWhatTheTensorsAre) {
  copy("deepseek-v3-fp8");
  make_nan(kScaleName);
  for (const char* pinned : {"bf16", "nvfp4", "fp8_e4m3fn.block64x64"})
    expect_error(Fault::usage,
                 {"the model's description says scheme '" + std::string(pinned) + "'",
                  "correct `scheme` there"},
                 [&] { model("from-checkpoint", pinned).load(); });
  EXPECT_NO_THROW(model("fp8_e4m3fn", "fp8_e4m3fn.block128x128.f32"));
}

// A description without the config: the pinned scheme says what the shapes cannot.
TEST_F(FormatsOfModels, APinnedSchemeStandsForWhatAConfigWouldAnnounce) {
  forget = true;
  struct Case {
    const char *data, *pinned, *scheme;
  };
  const Case cases[] = {
      {"gpt-oss-mxfp4", "", "mxfp4.g32.e8m0"},
      {"gpt-oss-mxfp4", "mxfp4", "mxfp4.g32.e8m0"},
      {"gpt-oss-mxfp4", "mxfp4.g32.e8m0", "mxfp4.g32.e8m0"},
      {"olmoe-bf16", "bf16", "bf16"},
      {"qwen3-moe-int8", "int8", "int8.channel.bf16"},
      {"qwen3-moe-int8", "int8.channel.bf16", "int8.channel.bf16"},
      {"qwen3-moe-fp8", "fp8_e4m3fn.block128x128", "fp8_e4m3fn.block128x128.bf16"},
      {"mixtral-awq", "int4_awq.g32.f16", "int4_awq.g32.f16"}};
  for (const auto& [data, pinned, scheme] : cases) {
    SCOPED_TRACE(std::string(data) + ", pinned '" + pinned + "'");
    copy(data);
    try {
      model("from-checkpoint", pinned);
      EXPECT_EQ(made->plan().layers[0].scheme, scheme);
      made->load();
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

// A Model file says what the config said, and pins.
TEST_F(FormatsOfModels, ADescriptionThatPinsAnotherSchemeIsRefused) {
  copy("deepseek-v3-fp8");
  edit.write_folder(folder, like);
  const auto described = [&](const std::string& scheme) {
    spec::Model spec = families().resolve(folder);
    for (spec::MoELayer& layer : spec.layers) layer.scheme = scheme;
    const fs::path file = folder / "model.yaml";
    write_text_file(file, config::write_model(spec));
    spec::Model read = config::read_model(file);
    EXPECT_EQ(read.quantization, spec.quantization);
    spec::Tensors rules = families().tensors(read);
    Model(*session, std::move(read), std::move(rules), {}).load();
  };
  described("");
  described("fp8_e4m3fn");
  expect_error(Fault::usage,
               {"the model's description says scheme 'fp8_e5m2'",
                "is 'fp8_e4m3fn.block128x128.f32'", "leave it out"},
               [&] { described("fp8_e5m2"); });
}

TEST_F(FormatsOfModels, ExplainTellsWhatAFormatWasFoundIn) {
  copy("deepseek-v3-fp8");
  const std::string text = explain_choices(model().choices());
  for (const std::string part :
       {"quant (moert.quant_method/1, scheme fp8_e4m3fn.block128x128.f32, activations group128)",
        "found in 24 weights, as ",
        "layers.{layer}.mlp.experts.{expert}.down_proj.weight with "
        "weight_scale_inv",
        "found in 3 weights, as "})
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' in\n" << text;
}

TEST_F(FormatsOfModels, AWarningIsLoggedOnceForTheModel) {
  copy("qwen3-moe-bf16");
  spec::Quantization announced{"fp8", {{{}, {"fp8", "", "token", "", ""}}}, {}};
  edit.write_folder(folder, like);
  spec::Model spec = families().resolve(folder);
  spec.quantization = announced;
  ModelSettings settings;
  settings.device = "cpu";
  const Model made_so(*session, spec, families().tensors(spec), settings);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("weights are bf16 in the files, though the config announces 'fp8'"),
            std::string::npos)
      << warnings[0];
  warnings.clear();
  spec.quantization->excluded = {"mlp.experts"};
  const Model quiet(*session, spec, families().tensors(spec), settings);
  EXPECT_EQ(warnings, std::vector<std::string>{});
}

}  // namespace
}  // namespace moert::runtime
