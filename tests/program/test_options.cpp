// Options of a run's parts: they reach whoever serves the part, and none is passed over in silence.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <ostream>

#include "program.hpp"

namespace moert::testing {
namespace {

const std::string kSimulator =
    std::string(MOERT_BINARY_DIR) + "/lib/moert/test-plugins/libmoert_sim32.so";
const std::string kMute = std::string(MOERT_BINARY_DIR) + "/tests/plugins/mute";

std::string on_device(const std::string& checkpoint, const std::string& more = {}) {
  std::string text = run_yaml(data_folder(checkpoint), more);
  const std::string other = "device: cpu";
  return text.replace(text.find(other), other.size(), "device: sim32:0");
}

TEST(Options, ReachWhoServesThePart) {
  const TemporaryFolder folder;
  write_file(folder / "run.yaml",
             on_device("olmoe-bf16", "  options: { routed_experts: { gemm: wgmma } }\n"));
  const Ended ended = run_moert({"run", "run.yaml", "--plugin-path", kSimulator, "--json"},
                                {.folder = folder.path()});
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  const Json json = ended.json();
  EXPECT_TRUE(json.at("passed").get<bool>()) << MOERT_SHOW(ended);
  ASSERT_FALSE(json.at("layers").empty());
  for (const Json& layer : json.at("layers"))
    EXPECT_EQ(layer.value("options", Json()), (Json{{"routed_experts", {{"gemm", "wgmma"}}}}))
        << layer;
}

TEST(Options, WhereThereAreNoneTheReportHasNone) {
  const TemporaryFolder folder;
  const Ended ended =
      run_moert({"run", run_file("olmoe-f32"), "--json"}, {.folder = folder.path()});
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  const Json json = ended.json();
  ASSERT_FALSE(json.at("layers").empty());
  for (const Json& layer : json.at("layers")) EXPECT_FALSE(layer.contains("options")) << layer;
}

// Which entry, which options, and where they stand.
TEST(Options, OfACapturerAreFoundWhereTheyStand) {
  const TemporaryFolder folder;
  write_file(folder / "run.yaml", on_device("olmoe-bf16",
                                            "  capture:\n"
                                            "    - { to: memory }\n"
                                            "    - { to: memory, options: { bad: 1 } }\n"));
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"run", "run.yaml", "--plugin-path", kSimulator};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ended ended = run_moert(arguments, {.folder = folder.path()});
    EXPECT_EQ(ended.code, 2) << MOERT_SHOW(ended);
    return ended;
  };
  const Ended file = run({});
  EXPECT_TRUE(contains(file.err, "at capture[1].options: bad (run.yaml:11:37)"))
      << MOERT_SHOW(file);
  EXPECT_TRUE(contains(file.err, "plugins/capture/README.md")) << MOERT_SHOW(file);
  const Ended flag = run({"--set", "capture=[{to: sim32.memory, options: {bad: 1}}]"});
  EXPECT_TRUE(contains(flag.err, "at capture[0].options: bad (--set)")) << MOERT_SHOW(flag);
  EXPECT_TRUE(contains(flag.err, "the README of the capturer's plugin")) << MOERT_SHOW(flag);
}

TEST(Options, AreExplainedWithWhereTheyStand) {
  const TemporaryFolder folder;
  write_file(folder / "run.yaml",
             on_device("olmoe-bf16", "  options: { routed_experts: { gemm: mma } }\n"));
  const Ended ended = run_moert({"explain", "run.yaml", "--plugin-path", kSimulator, "--json"},
                                {.folder = folder.path()});
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  const Json facts = ended.json().at("run");
  Json option;
  for (const Json& fact : facts)
    if (fact.at("name") == "options.routed_experts.gemm") option = fact;
  ASSERT_FALSE(option.is_null()) << MOERT_SHOW(ended);
  EXPECT_EQ(option.at("value"), "mma");
  EXPECT_TRUE(contains(option.at("from").get<std::string>(), "run.yaml:9:38")) << option;
}

struct Refused {
  const char* name;
  const char *command, *checkpoint;
  std::vector<std::string> more;
  int code;
  std::vector<std::string> said;
};

void PrintTo(const Refused& tested, std::ostream* out) { *out << tested.name; }

class RefusedOptions : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedOptions, SayWhatAndWhere) {
  const TemporaryFolder folder;
  write_file(folder / "run.yaml", on_device(GetParam().checkpoint));
  std::vector<std::string> arguments = {GetParam().command, "run.yaml", "--plugin-path",
                                        kSimulator};
  arguments.insert(arguments.end(), GetParam().more.begin(), GetParam().more.end());
  const Ended ended = run_moert(arguments, {.folder = folder.path()});
  EXPECT_EQ(ended.code, GetParam().code) << MOERT_SHOW(ended);
  for (const std::string& words : GetParam().said)
    EXPECT_TRUE(contains(ended.out + ended.err, words)) << words << MOERT_SHOW(ended);
}

INSTANTIATE_TEST_SUITE_P(
    Command, RefusedOptions,
    ::testing::Values(
        Refused{"unknown",
                "run",
                "olmoe-bf16",
                {"--set", "options.routed_experts={gem: mma, tiles: 4}"},
                2,
                {"sim32.experts takes no such options for layer 0", "unknown option 'gem'",
                 "options.routed_experts: gem (--set), tiles (--set)"}},
        Refused{"value",
                "run",
                "olmoe-bf16",
                {"--set", "options.routed_experts.gemm=fast"},
                2,
                {"'fast', expected mma, wgmma or native"}},
        Refused{"cannot",
                "run",
                "olmoe-f32",
                {"--set", "options.routed_experts.gemm=wgmma"},
                4,
                {"sim32.experts takes no such options", "decoded to f32"}},
        Refused{"another_serves",
                "run",
                "olmoe-bf16",
                {"--device", "cpu", "--set", "options.routed_experts.gemm=mma"},
                2,
                {"cpu.simd takes no such options for layer 0", "unknown option 'gemm'"}},
        Refused{"router",
                "run",
                "olmoe-bf16",
                {"--set", "options.router.a=1"},
                2,
                {"sim32.router takes no such options", "options.router: a (--set)"}},
        Refused{"runner",
                "run",
                "olmoe-bf16",
                {"--set", "options.runner.a=1"},
                2,
                {"sim32.runner takes no such options", "options.runner: a (--set)"}},
        Refused{"shared",
                "run",
                "qwen2-moe-f32",
                {"--device", "cpu", "--set", "options.shared_experts.a=1"},
                2,
                {"takes no such options", "options.shared_experts: a (--set)"}},
        Refused{"no_layer",
                "explain",
                "olmoe-bf16",
                {"--set", "options.shared_experts.a=1"},
                2,
                {"options for shared_experts, and no layer has them",
                 "options.shared_experts: a (--set)"}},
        Refused{"no_parts",
                "explain",
                "olmoe-f32",
                {"--device", "cpu", "--plugin-path", kMute, "--set", "layers.runner=mute.honest",
                 "--set", "options.routed_experts.gemm=mma"},
                4,
                {"computes inside, but there are options for routed_experts"}}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace moert::testing
