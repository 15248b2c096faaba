// Public bug reports about config keys, tried here. A test is named after the report's number in our
// list of other runtimes' faults; the comment says what went wrong there.
// SPDX-License-Identifier: Apache-2.0
#include "captured.hpp"
#include "runtime/run.hpp"

namespace moert::bugs {
namespace {

// The capturer knew one spelling of "experts per token" and died on another.
TEST(BugConfig, N1_CapturerFollowsTheResolvedModelWhateverTheSpelling) {
  Tiny tiny = olmoe();
  Json text = tiny.config;
  text.erase("num_experts_per_tok");
  text["top_k_experts"] = 2;
  for (const bool nested : {false, true}) {
    tiny.config = nested ? Json{{"model_type", "olmoe"}, {"text_config", text}} : text;
    Loaded loaded(tiny);
    ASSERT_EQ(loaded.spec().layers.at(0).routing.top_k, 2);
    Captured captured(loaded);
    const auto ids = captured.run({{0, 0}, {0, 1}, {0, 2}}, random_rows(3, 6, 1));
    const capture::CaptureFile file = captured.file();
    ASSERT_EQ(file.info().layers.size(), 1u);
    EXPECT_EQ(file.info().layers[0].top_k, 2);
    for (int64_t t = 0; t < 3; ++t)
      EXPECT_EQ(ids_at(file, {0, t}, 0), row_ids(ids[0], static_cast<size_t>(t), 2));
    EXPECT_TRUE(file.complete());
  }
}

// Expert keys were looked up before it was known whether the model has experts.
TEST(BugConfig, N3_ADenseModelOfAnyFamilyIsDense) {
  for (const Json& extra :
       {Json::object(), Json{{"num_experts", nullptr}, {"enable_moe_block", false}}}) {
    Tiny tiny;
    tiny.config = {{"model_type", "llama"},
                   {"hidden_size", 8},
                   {"intermediate_size", 16},
                   {"num_hidden_layers", 2},
                   {"hidden_act", "silu"}};
    tiny.config.update(extra);
    tiny.random("model.embed_tokens.weight", {4, 8});
    const spec::Model model = families().resolve(tiny.save());
    EXPECT_TRUE(model.layers.empty());
  }
}

// Fixed arrays for 256, 512 experts.
TEST(BugConfig, N4_NoCapOnTheNumberOfExperts) {
  for (const auto& [experts, top_k] :
       std::vector<std::pair<int64_t, int64_t>>{{896, 16}, {1025, 1025}}) {
    Loaded loaded(olmoe({experts, top_k, 2, 1, 1}));
    loaded.forward(random_rows(2, 2, 3));
    std::vector<int32_t> first(loaded.routing.ids.begin(), loaded.routing.ids.begin() + top_k);
    std::sort(first.begin(), first.end());
    EXPECT_EQ(std::unique(first.begin(), first.end()), first.end());
    EXPECT_GE(first.front(), 0);
    EXPECT_LT(first.back(), experts);
  }
}

// A default for the number of shared experts asked for tensors that the release does not have.
TEST(BugConfig, N6_NoSharedExpertsWhereTheConfigHasNone) {
  for (const Json& count : {Json(), Json(0)}) {
    Tiny tiny = deepseek({4, 2, 6, 5, 1}, 1, 1);
    if (!count.is_null()) tiny.config["n_shared_experts"] = count;
    Loaded loaded(tiny);
    EXPECT_FALSE(loaded.spec().layers.at(0).shared.has_value());
  }
}

// The recorder had a k of 8 built in.
TEST(BugConfig, N7_EachLayerHasItsOwnK) {
  Tiny tiny = olmoe({4, 2, 6, 5, 3});
  tiny.config["num_experts_per_tok"] = {2, 3, 2};
  Loaded loaded(tiny);
  EXPECT_EQ(captured_ids(loaded, 2), (std::vector<size_t>{4, 6, 4}));
  tiny.config["num_experts_per_tok"] = {2, 3};
  EXPECT_EQ(error_of([&] { families().resolve(tiny.save()); }).fault(), Fault::usage);
}

// routed_scaling_factor and n_shared_experts are null in a published file.
TEST(BugConfig, N76_NullScaleIsOne) {
  Tiny tiny = deepseek({4, 2, 6, 5, 1}, 1, 1);
  tiny.config["routed_scaling_factor"] = nullptr;
  tiny.config["n_shared_experts"] = nullptr;
  const spec::Model model = families().resolve(tiny.save());
  EXPECT_EQ(model.layers.at(0).routing.routed_scale, 1);
  EXPECT_FALSE(model.layers.at(0).shared.has_value());
}

// A name that the loader did not know ran as plain silu.
TEST(BugConfig, N82_AnUnknownActivationIsRefusedByName) {
  Tiny tiny = olmoe();
  tiny.config["hidden_act"] = "glorp";
  expect_text(error_of([&] { families().resolve(tiny.save()); }), {"glorp", "hidden_act"});
  // A known name that no candidate computes: refused with the table, never replaced.
  tiny.config["hidden_act"] = "situ";
  const Error error = error_of([&] { Loaded loaded(tiny); });
  EXPECT_TRUE(error.fault() == Fault::refused || error.fault() == Fault::usage);
  expect_text(error, {"situ"});
}

// A dense model was refused only after the whole load, or not at all.
TEST(BugConfig, N117_NothingToCaptureInADenseModel) {
  Tiny tiny;
  tiny.config = {{"model_type", "llama"},
                 {"hidden_size", 8},
                 {"intermediate_size", 16},
                 {"num_hidden_layers", 2},
                 {"hidden_act", "silu"}};
  const spec::Model model = families().resolve(tiny.save());
  EXPECT_TRUE(model.layers.empty());
  spec::Run run;
  run.checkpoint = tiny.save();  // without a single weight
  run.capture.push_back(Captured::all());
  const Error error = error_of([&] { runtime::run(session(), families(), run); });
  EXPECT_EQ(error.fault(), Fault::usage);
  expect_text(error, {"no MoE layers"});
}

// "top_k" is the sampler's.
TEST(BugConfig, LookAlikeTopKIsNotExpertsPerToken) {
  Tiny tiny = olmoe();
  tiny.config["top_k"] = 50;
  EXPECT_EQ(families().resolve(tiny.save()).layers.at(0).routing.top_k, 2);
  tiny.config.erase("num_experts_per_tok");
  const Error error = error_of([&] { families().resolve(tiny.save()); });
  EXPECT_EQ(error.fault(), Fault::usage);
  expect_text(error, {"num_experts_per_tok", "top_k_experts", "moe_topk"});
}

}  // namespace
}  // namespace moert::bugs
