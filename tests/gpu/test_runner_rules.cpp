// The runner's expert map, and what it refuses.
// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "gpu/first_device.hpp"
#include "runner_rig.hpp"

namespace moert::gpu {
namespace {

using IdList = std::vector<int32_t>;

std::vector<float> run(RunnerRig& rig, const IdList& forced, int64_t hidden) {
  std::vector<float> rows(forced.size() / kSlots * static_cast<size_t>(hidden), 1.0f);
  RunnerRig::Batch batch;
  rig.prepare(batch, rows, forced, {});
  const TestStream stream;
  EXPECT_EQ(rig.forward(batch, stream.get()), MOERT_OK) << rig.error()->message;
  synchronize(stream.get());
  EXPECT_EQ(batch.ids.download(), forced) << "reported ids stay logical";
  return rig.output(batch);
}

IdList map_of(RunnerRig& rig, int64_t copies) {
  IdList map(static_cast<size_t>(kExperts * copies), -9);
  const TensorView view(map.data(), MOERT_DTYPE_I32, {kExperts, copies});
  EXPECT_EQ(rig.table().expert_map(rig.self(), view, rig.error()), MOERT_OK);
  return map;
}

// Token t takes copy (t mod copies); experts that are elsewhere add nothing, zero experts are everywhere.
TEST(RunnerMap, SendsTokensToLocalCopies) {
  const RunnerLayer c = {"map", MOERT_LAYER_ZERO_EXPERTS, false, 1, 1, 1, MOERT_DTYPE_F32, 0, 1};
  RunnerRig rig(c);
  rig.finish();
  EXPECT_EQ(map_of(rig, 1), (IdList{0, 1, 2, 3}));
  EXPECT_EQ(run(rig, {0, 1, 3, 4}, 1), (std::vector<float>{0.75f + 0.5f, 3 + 0.25f}));
  // Expert 0 has the copies 3 and 2, expert 1 is elsewhere, 2 and 3 stay.
  rig.set_map({3, 2, -1, -1, 2, -1, -1, 3});
  EXPECT_EQ(map_of(rig, 2), (IdList{3, 2, -1, -1, 2, -1, 3, -1}));
  moert_runner_info_t info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(rig.table().info(rig.self(), &info, rig.error()), MOERT_OK);
  EXPECT_STREQ(info.expert_placement, "custom");
  EXPECT_EQ(run(rig, {0, 1, 0, 1, 0, 4, 3, 2}, 1),
            (std::vector<float>{3, 2.25f, 3.25f, 3 + 0.75f}));
  rig.set_map({1, 0, 2, 4}, MOERT_OUT_OF_RANGE);
  EXPECT_EQ(map_of(rig, 2), (IdList{3, 2, -1, -1, 2, -1, 3, -1})) << "a map that was refused";
  EXPECT_EQ(rig.statistics(false), (std::vector<int64_t>{4, 3, 1, 2, 2}));
}

// Recorded before any map was set, and before maps of other widths: each obeys the one that is there when it is
// launched, whatever has been given back meanwhile.
TEST(RunnerMap, GraphsObeyTheMapThatIsThereWhenTheyAreLaunched) {
  struct Step {
    IdList map;  // empty: none is set
    std::vector<float> want;
  };
  // Expert e gives e + 1; tokens 0 and 1 go to experts 0 and 1, token 2 to 3 and 2.
  const Step steps[] = {{{}, {1.25f, 1.25f, 3.75f}},
                        {{1, 0, 3, 2}, {1.75f, 1.75f, 3.25f}},
                        {{3, 2, -1, -1, 2, -1, -1, 3}, {3, 2.25f, 3.75f}},
                        {{0, 1, 2, 3, -1, -1, 1, 2, 3, 0, -1, -1}, {1.75f, 2.5f, 1.75f}},
                        {{1, 0, 3, 2}, {1.75f, 1.75f, 3.25f}},
                        {{0, 1, 2, 3}, {1.25f, 1.25f, 3.75f}}};
  RunnerRig rig({"map", 0, false, 1, 1, 1});
  rig.finish();
  RunnerRig::Batch batch;
  rig.prepare(batch, {1, 1, 1}, {0, 1, 0, 1, 3, 2}, {});
  const TestStream stream;
  std::vector<Graph> graphs;
  for (const Step& step : steps) {
    if (!step.map.empty()) rig.set_map(step.map);
    begin_graph(stream.get());
    const moert_code_t code = rig.forward(batch, stream.get());
    graphs.push_back(end_graph(stream.get()));
    ASSERT_EQ(code, MOERT_OK) << rig.error()->message;
    for (size_t i = 0; i < graphs.size(); ++i) {
      batch.out.poison();
      launch_graph(stream.get(), graphs[i]);
      synchronize(stream.get());
      EXPECT_EQ(rig.output(batch), step.want)
          << "recorded before step " << i << ", launched after step " << graphs.size() - 1;
    }
  }
  for (Graph graph : graphs) destroy_graph(graph);
}

TEST(RunnerRules, PassesErrorsOfItsPartsOn) {
  RunnerRig rig({"errors"});
  const std::vector<float> numbers(8, 1.0f);
  const TensorView view(static_cast<const void*>(numbers.data()), MOERT_DTYPE_F32, {8});
  EXPECT_EQ(rig.table().load_router(rig.self(), 3, view, rig.error()), MOERT_DATA_LOSS);
  EXPECT_EQ(rig.error()->native_code, 77);
  EXPECT_STREQ(rig.error()->message, "tensor 3 is odd");
  uint64_t bytes = 0;
  EXPECT_EQ(rig.table().bundle_bytes(rig.self(), &bytes, rig.error()), MOERT_UNIMPLEMENTED);
}

TEST(RunnerRules, RefusesWhatItCannotUnderstandOrFit) {
  {
    RunnerRig rig({"refuses"});
    RunnerRig::Batch batch;
    rig.prepare(batch, std::vector<float>(10, 1.0f), {}, {});
    const TestStream stream;
    EXPECT_EQ(rig.forward(batch, stream.get()), MOERT_FAILED_PRECONDITION);
    rig.finish();
    EXPECT_EQ(rig.table().finish(rig.self(), rig.error()), MOERT_FAILED_PRECONDITION);
    rig.flags = 1u << 30;
    EXPECT_EQ(rig.forward(batch, stream.get()), MOERT_UNIMPLEMENTED);
    rig.flags = 0;
    rig.shortage = 1;
    rig.prepare(batch, std::vector<float>(10, 1.0f), {}, {});
    EXPECT_EQ(rig.forward(batch, stream.get()), MOERT_INVALID_ARGUMENT);
    EXPECT_NE(std::string(rig.error()->message).find("workspace"), std::string::npos);
    EXPECT_EQ(ScalingExperts::alive, 1);
  }
  EXPECT_EQ(ScalingExperts::alive, 0) << "the runner owns its parts and destroys them";
}

// Called while the first device is current, which it is again after each call.
TEST(RunnerRules, ServesASecondDevice) {
  if (device_count() < 2) GTEST_SKIP() << "there is one device";
  const FirstDevice first;
  std::vector<float> of[2];
  for (const int32_t ordinal : {0, 1}) {
    RunnerRig rig({"second", MOERT_LAYER_NORM_IN, true, 2, 8, 8}, ordinal);
    ASSERT_EQ(rig.created(), MOERT_OK) << rig.error()->message;
    rig.load(MOERT_PART_EXPERT_NORM, std::vector<float>(8, 0.5f), 8, 0);
    rig.finish();
    rig.set_map({1, 0, 3, -1, 2, 1, 0, 2});
    std::optional<CurrentDevice> current(ordinal);
    const TestStream stream;
    RunnerRig::Batch batch;
    std::vector<float> rows(24);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i % 7) - 3;
    rig.prepare(batch, rows, {0, 1, 77, 1, 3, 2}, {1, 0, 1});
    current.reset();
    EXPECT_EQ(rig.forward(batch, stream.get()), MOERT_OK) << rig.error()->message;
    EXPECT_EQ(rig.statistics(true), (std::vector<int64_t>{1, 1, 1, 1}));
    first.expect_current();
    current.emplace(ordinal);
    of[ordinal] = rig.output(batch);
  }
  EXPECT_EQ(of[0], of[1]);
}

TEST(RunnerRules, DeclinesLayersWithAReason) {
  const RunnerLayer wrong[] = {
      {"unknown", 1u << 31},
      {"two_norms", MOERT_LAYER_NORM_IN | MOERT_LAYER_NORM_OUT},
      {"width", 0, false, 1, 10, 6},
      {"zero_experts", 0, false, 1, 10, 10, MOERT_DTYPE_F32, 0, 2},
      {"no_zero_experts", MOERT_LAYER_ZERO_EXPERTS},
      {"f64", 0, false, 1, 10, 10, MOERT_DTYPE_F64},
  };
  for (const RunnerLayer& c : wrong) {
    RunnerRig rig(c);
    EXPECT_EQ(rig.created(), MOERT_UNIMPLEMENTED) << c.label;
    moert_support_t support{};
    support.struct_size = sizeof support;
    EXPECT_EQ(rig.table().supports(&kNoHost, &rig.layer(), &support, rig.error()), MOERT_OK);
    EXPECT_EQ(support.verdict, 0) << c.label;
    EXPECT_NE(support.reason[0], '\0') << c.label;
  }
  EXPECT_EQ(ScalingExperts::alive, 0) << "a create that fails leaves the parts alone";
}

TEST(RunnerRules, LoadsEveryTensorOfTheLayerOnce) {
  RunnerRig rig({"loads", MOERT_LAYER_LATENT | MOERT_LAYER_OUTPUT_BIAS, false, 1, 3, 2});
  const auto load = [&](uint32_t part, int64_t rows, int64_t cols) {
    const std::vector<float> numbers(static_cast<size_t>(rows * std::max<int64_t>(cols, 1)), 1.0f);
    const runtime::Stored stored(numbers, rows, cols);
    const moert_piece_t piece = stored.piece(part);
    return rig.table().load_layer(rig.self(), &piece, rig.error());
  };
  EXPECT_EQ(rig.table().finish(rig.self(), rig.error()), MOERT_FAILED_PRECONDITION);
  EXPECT_STREQ(rig.error()->message, "latent down was never loaded");
  EXPECT_EQ(load(MOERT_PART_LATENT_DOWN, 3, 2), MOERT_DATA_LOSS);
  EXPECT_EQ(load(MOERT_PART_LATENT_DOWN, 2, 3), MOERT_OK);
  EXPECT_EQ(load(MOERT_PART_LATENT_DOWN, 2, 3), MOERT_ALREADY_EXISTS);
  EXPECT_EQ(load(MOERT_PART_LATENT_UP, 3, 2), MOERT_OK);
  EXPECT_EQ(load(MOERT_PART_EXPERT_NORM, 2, 0), MOERT_INVALID_ARGUMENT);
  EXPECT_EQ(load(MOERT_PART_OUTPUT_BIAS, 2, 0), MOERT_INVALID_ARGUMENT);
  EXPECT_EQ(load(MOERT_PART_OUTPUT_BIAS, 3, 0), MOERT_OK);
  EXPECT_EQ(load(99, 3, 0), MOERT_INVALID_ARGUMENT);
  rig.finish();
  EXPECT_EQ(load(MOERT_PART_OUTPUT_BIAS, 3, 0), MOERT_FAILED_PRECONDITION);
}

}  // namespace
}  // namespace moert::gpu
