// Capturing and replaying routing, as its users do it.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "program.hpp"
#include "support/safetensors_edit.hpp"

namespace moert::testing {
namespace {

namespace fs = std::filesystem;

// A run of olmoe-tiny in a folder of its own, which left a capture with margins.
class Routing : public ::testing::Test {
 protected:
  void SetUp() override {
    const Ended ended = run({"--set", "capture[0].what=[ids,weights,margins]"});
    ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
    ASSERT_TRUE(fs::exists(folder_ / kRoutes));
  }
  Ended run(std::vector<std::string> more, const std::string& name = "olmoe-tiny") const {
    std::vector<std::string> arguments = {"run", run_file(name)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_moert(arguments, {.folder = folder_.path()});
  }
  Ended moert(const std::vector<std::string>& arguments) const {
    return run_moert(arguments, {.folder = folder_.path()});
  }
  // The same routing, but the first token of layer 2 takes its experts in another order, and the second
  // another expert.
  void write_other(const std::string& to) const {
    // In the shape of Megatron ids are plain numbers that can be edited, and it comes back checked.
    ASSERT_EQ(moert({"capture", "convert", kRoutes, "raw", "--to", "megatron"}).code, 0);
    std::string raw = read_file(folder_ / "raw");
    auto* ids = reinterpret_cast<int32_t*>(raw.data());
    constexpr size_t kLayers = 6, kSlots = 4;
    std::swap(ids[2 * kSlots], ids[2 * kSlots + 1]);
    int32_t* second = ids + kLayers * kSlots + 2 * kSlots;
    while (std::count(second + 1, second + kSlots, second[0] = (second[0] + 1) % 16) != 0) {
    }
    write_file(folder_ / "raw", raw);
    const Ended back =
        moert({"capture", "convert", "raw", to, "--from", "megatron", "--like", kRoutes});
    ASSERT_EQ(back.code, 0) << MOERT_SHOW(back);
  }

  static constexpr const char* kRoutes = "out/olmoe-tiny.routes.safetensors";
  const TemporaryFolder folder_;
};

TEST_F(Routing, OwnReplayGivesTheSameBytesAndVerifies) {
  const std::string output = read_file(folder_ / "out/olmoe-tiny.safetensors");
  const Ended replayed = run({"--replay", kRoutes, "--set", "capture=null"});
  ASSERT_EQ(replayed.code, 0) << MOERT_SHOW(replayed);
  EXPECT_TRUE(contains(replayed.out, "replayed 768 of 768 routing decisions"))
      << MOERT_SHOW(replayed);
  EXPECT_TRUE(read_file(folder_ / "out/olmoe-tiny.safetensors") == output);
  const Ended verified = run({"--replay", kRoutes, "--verify", "--set", "capture=null"});
  EXPECT_EQ(verified.code, 0) << MOERT_SHOW(verified);
  EXPECT_TRUE(contains(verified.out, "same routing: 128 tokens")) << MOERT_SHOW(verified);
}

TEST_F(Routing, OtherRoutesAreFollowedAndVerifyNamesTheFirst) {
  write_other("other.safetensors");
  const Ended verified =
      run({"--replay", "other.safetensors", "--verify", "--set", "capture=null", "--json"});
  EXPECT_EQ(verified.code, 1) << MOERT_SHOW(verified);
  const Json difference = verified.json().at("replay").at("difference");
  EXPECT_EQ(difference.at("tokens"), 128);
  EXPECT_EQ(difference.at("tokens_flipped"), 1);
  EXPECT_EQ(difference.at("first").at("layer"), 2);
  EXPECT_EQ(difference.at("first").at("position"), 0);
  EXPECT_TRUE(difference.at("first").at("margin").is_number());
  EXPECT_EQ(difference.at("layers").at(2).at("reordered"), 1);
  EXPECT_EQ(difference.at("layers").at(2).at("flipped"), 1);
  const Ended followed =
      run({"--replay", "other.safetensors", "--set", "capture[0].path=followed.safetensors"});
  EXPECT_EQ(followed.code, 1) << "the numbers of the native routing are not met"
                              << MOERT_SHOW(followed);
  const Ended same = moert({"capture", "diff", "followed.safetensors", "other.safetensors"});
  EXPECT_EQ(same.code, 0) << MOERT_SHOW(same);
}

TEST_F(Routing, ShowStatsAndDiffSayTheSameAsTheirJson) {
  write_other("other.safetensors");
  const Ended show = moert({"capture", "show", kRoutes, "--rows", "2"});
  ASSERT_EQ(show.code, 0) << MOERT_SHOW(show);
  EXPECT_TRUE(contains(show.out, "128 tokens of 1 sequence, with ids, weights, margins"));
  EXPECT_TRUE(contains(show.out, "complete: no decision is absent"));
  const Json shown = moert({"capture", "show", kRoutes, "--rows", "2", "--json"}).json();
  EXPECT_TRUE(shown.at("complete"));
  ASSERT_EQ(shown.at("rows").size(), 2u);
  std::string ids;
  for (const Json& id : shown.at("rows").at(1).at("ids").at(5))
    ids += (ids.empty() ? "" : " ") + std::to_string(id.get<int>());
  EXPECT_TRUE(contains(show.out, "0         1      5  " + ids)) << MOERT_SHOW(show);

  const Json stats = moert({"capture", "stats", kRoutes, "--json"}).json();
  for (const Json& layer : stats.at("layers")) EXPECT_TRUE(layer.at("near_ties").is_number());
  const Ended diff = moert({"capture", "diff", kRoutes, "other.safetensors", "--near-tie", "1000"});
  EXPECT_EQ(diff.code, 1) << MOERT_SHOW(diff);
  EXPECT_TRUE(contains(diff.out, "first difference: layer 2, sequence 0, position 0"))
      << MOERT_SHOW(diff);
  const Json report = run({"--json"}).json();  // writes the capture anew, without margins
  const Json plain = moert({"capture", "stats", kRoutes, "--json"}).json();
  for (size_t layer = 0; layer < 6; ++layer) {
    EXPECT_EQ(stats.at("layers").at(layer).at("expert_tokens"),
              report.at("layers").at(layer).at("load").at("expert_tokens"));
    EXPECT_TRUE(plain.at("layers").at(layer).at("near_ties").is_null());
  }
}

struct Shape {
  const char *name, *encoding;
};
class Shapes : public Routing, public ::testing::WithParamInterface<Shape> {};

TEST_P(Shapes, ComeBackByteForByte) {
  const Shape shape = GetParam();
  ASSERT_EQ(
      moert({"capture", "convert", kRoutes, "a", "--to", shape.name, "--encoding", shape.encoding})
          .code,
      0);
  const Ended back =
      moert({"capture", "convert", "a", "back.safetensors", "--from", shape.name, "--encoding",
             shape.encoding, "--model", data_folder("olmoe-tiny").string()});
  ASSERT_EQ(back.code, 0) << MOERT_SHOW(back);
  EXPECT_EQ(moert({"capture", "diff", kRoutes, "back.safetensors"}).code, 0);
  ASSERT_EQ(moert({"capture", "convert", "back.safetensors", "b", "--to", shape.name, "--encoding",
                   shape.encoding})
                .code,
            0);
  EXPECT_FALSE(read_file(folder_ / "a").empty());
  EXPECT_TRUE(read_file(folder_ / "a") == read_file(folder_ / "b"));
}

INSTANTIATE_TEST_SUITE_P(All, Shapes,
                         ::testing::Values(Shape{"vllm", "base64"}, Shape{"vllm", "raw"},
                                           Shape{"sglang", "base64"}, Shape{"sglang", "raw"},
                                           Shape{"tensorrt-llm", "raw"}, Shape{"megatron", "raw"},
                                           Shape{"prime-rl", "raw"}, Shape{"prime-rl", "base64"}),
                         [](const auto& tested) {
                           std::string name =
                               std::string(tested.param.name) + "_" + tested.param.encoding;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST_F(Routing, AnotherProcessTakesItThroughSharedMemory) {
  const std::string name = "program-test-" + std::to_string(::getpid());
  Ended attached;
  std::thread reader([&] {
    attached =
        moert({"capture", "attach", name, "-o", "live.safetensors", "--wait", "60", "--json"});
  });
  const Ended ended =
      run({"--set", "capture[1].to=shared_memory", "--set", "capture[1].what=[ids,weights,margins]",
           "--set", "capture[1].options.name=" + name, "--set", "layers.routed_experts=cpu.ref",
           "--set", "repeat=20"});
  reader.join();
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  ASSERT_EQ(attached.code, 0) << MOERT_SHOW(attached);
  EXPECT_EQ(attached.json().at("tokens"), 128);
  EXPECT_EQ(attached.json().at("lost"), 0);
  const Ended same = moert({"capture", "diff", kRoutes, "live.safetensors"});
  EXPECT_EQ(same.code, 0) << MOERT_SHOW(same);
  EXPECT_FALSE(contains(moert({"capture", "segments"}).out, name)) << "nothing is left";
}

// Made-up routing stays marked on its way through shared memory, and which model it is of.
TEST_F(Routing, WhatASegmentCarriesSaysWhatItIs) {
  const std::string name = "program-made-up-" + std::to_string(::getpid());
  Ended attached;
  std::thread reader([&] {
    attached = moert({"capture", "attach", name, "-o", "live.safetensors", "--wait", "60"});
  });
  const Ended ended =
      run({"--set", "capture[0].to=shared_memory", "--set", "capture[0].path=null", "--set",
           "capture[0].options.name=" + name, "--set", "layers.routed_experts=cpu.ref", "--set",
           "repeat=20", "--set", "expect=null", "--set", "simulate.routing=zipf"});
  reader.join();
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.out, "segment " + name)) << MOERT_SHOW(ended);
  ASSERT_EQ(attached.code, 0) << MOERT_SHOW(attached);
  const Json shown = moert({"capture", "show", "live.safetensors", "--json"}).json();
  EXPECT_EQ(shown.at("simulated"), "zipf");
  EXPECT_EQ(shown.at("model"), "olmoe-tiny");
  EXPECT_EQ(shown.at("hidden_layers"), 6);
  EXPECT_EQ(moert({"capture", "convert", "live.safetensors", "a", "--to", "vllm"}).code, 0);
  const Ended followed = run({"--replay", "live.safetensors", "--set", "expect=null"});
  EXPECT_TRUE(contains(followed.out, "was made up (zipf)")) << MOERT_SHOW(followed);
}

TEST_F(Routing, AReaderThatIsStoppedSaysThatItsFileIsCut) {
  const std::string name = "program-cut-" + std::to_string(::getpid());
  Ended attached;
  std::thread reader([&] {
    attached = run_moert({"capture", "attach", name, "-o", "live.safetensors", "--wait", "60"},
                         {.folder = folder_.path(), .interrupt_after_ms = 700});
  });
  run({"--set", "capture[0].to=shared_memory", "--set", "capture[0].path=null", "--set",
       "capture[0].options.name=" + name, "--set", "layers.routed_experts=cpu.ref", "--set",
       "repeat=100"});
  reader.join();
  EXPECT_EQ(attached.code, 130) << MOERT_SHOW(attached);
  if (fs::exists(folder_ / "live.safetensors")) {  // else it was stopped while it waited
    EXPECT_TRUE(contains(moert({"capture", "show", "live.safetensors"}).out, "not complete"));
  }
}

// Layers with other numbers of rows are other tokens: which ones, a list for some of them can't say.
TEST_F(Routing, RowsOfLayersThatDifferGetSequencesOfTheirOwn) {
  const Ended ended = run({"--json"}, "mixtral-bf16");
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  const Json capture = ended.json().at("captures").at(0);
  EXPECT_EQ(capture.at("tokens"), 191) << "96 and 95";
  EXPECT_EQ(capture.at("decisions_absent"), 191) << "each has one of two layers";
  SafetensorsEdit edit(data_folder("mixtral-bf16") / "golden.safetensors");
  for (const char* tensor : {"sequences", "positions"}) edit.add(tensor, {96}, MOERT_DTYPE_I64);
  edit.write(folder_ / "hidden.safetensors");
  const Ended refused = run({"--set", "inputs.hidden_states=hidden.safetensors"}, "mixtral-bf16");
  EXPECT_EQ(refused.code, 6) << MOERT_SHOW(refused);
  EXPECT_TRUE(contains(refused.err, "layers have different numbers of rows"))
      << MOERT_SHOW(refused);
}

TEST_F(Routing, TokensThatMakeNoSenseAreTheFilesFault) {
  SafetensorsEdit edit(data_folder("olmoe-tiny") / "golden.safetensors");
  for (const char* tensor : {"sequences", "positions"}) edit.add(tensor, {128}, MOERT_DTYPE_I64);
  edit.write(folder_ / "hidden.safetensors");  // all of them sequence 0, position 0
  const Ended refused = run({"--set", "inputs.hidden_states=hidden.safetensors"});
  EXPECT_EQ(refused.code, 6) << MOERT_SHOW(refused);
  EXPECT_TRUE(contains(refused.err, "stands twice")) << MOERT_SHOW(refused);
  EXPECT_TRUE(contains(refused.err, "hidden.safetensors")) << MOERT_SHOW(refused);
}

TEST_F(Routing, ExplainShowsWhatWasAskedFor) {
  const Ended ended = moert({"explain", run_file("olmoe-tiny"), "--set", "replay=routes.st",
                             "--set", "verify=true", "--set", "capture[0].options.max_rows=99"});
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  for (const char* text : {"routes.st", "capture[0].options.max_rows  99", "verify", "true"})
    EXPECT_TRUE(contains(ended.out, text)) << text << MOERT_SHOW(ended);
}

TEST_F(Routing, AReportIsOnePage) {
  const Ended ended = moert({"report", kRoutes, kRoutes, "-o", "report.html", "--json"});
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  const std::string page = read_file(folder_ / "report.html");
  EXPECT_EQ(page.size(), ended.json().at("bytes").get<size_t>());
  EXPECT_TRUE(contains(page, "olmoe-tiny"));
  EXPECT_FALSE(contains(page, "src=\"http"));
}

struct Refused {
  const char* name;
  std::vector<std::string> arguments;
  int code;
  std::vector<std::string> says;
};
class Refusals : public Routing, public ::testing::WithParamInterface<Refused> {};

TEST_P(Refusals, SayWhatAndWhatToDo) {
  std::vector<std::string> arguments = GetParam().arguments;
  for (std::string& argument : arguments)
    if (argument.starts_with("RUN:")) argument = run_file(argument.substr(4));
  const std::vector<std::string> before = files_below(folder_.path());
  const Ended ended = moert(arguments);
  EXPECT_EQ(ended.code, GetParam().code) << MOERT_SHOW(ended);
  for (const std::string& text : GetParam().says)
    EXPECT_TRUE(contains(ended.err, text)) << text << MOERT_SHOW(ended);
  EXPECT_EQ(files_below(folder_.path()), before) << "something was written";
}

const char* const kOwn = "out/olmoe-tiny.routes.safetensors";
INSTANTIATE_TEST_SUITE_P(
    All, Refusals,
    ::testing::Values(
        Refused{"no_capture_file",
                {"capture", "show", "out/olmoe-tiny.safetensors"},
                6,
                {"no capture file"}},
        Refused{"verify_nothing",
                {"run", "RUN:olmoe-tiny", "--verify"},
                2,
                {"nothing to compare", "--replay"}},
        Refused{"other_model",
                {"run", "RUN:olmoe-f32", "--replay", kOwn},
                6,
                {"num_experts 16", "the model has 8"}},
        Refused{"both_ways",
                {"capture", "convert", kOwn, "x", "--to", "vllm", "--from", "vllm"},
                2,
                {"exactly one"}},
        Refused{"no_model",
                {"capture", "convert", kOwn, "x", "--from", "megatron"},
                2,
                {"--model", "--like"}},
        Refused{"not_that_shape",
                {"capture", "convert", kOwn, "x", "--from", "megatron", "--like", kOwn},
                6,
                {kOwn}},
        Refused{"misspelt", {"capture", "convert", kOwn, "x", "--to", "vlm"}, 2, {"vllm"}},
        Refused{"encoding",
                {"capture", "convert", kOwn, "x", "--to", "vllm", "--encoding", "hex"},
                2,
                {"raw or base64"}},
        Refused{"onto_itself",
                {"capture", "convert", kOwn, kOwn, "--to", "vllm"},
                2,
                {"would replace"}},
        Refused{"no_sequence", {"capture", "stats", kOwn, "--sequence", "9"}, 2, {"no sequence 9"}},
        Refused{"no_number", {"capture", "show", kOwn, "--rows", "-1"}, 2, {"--rows"}},
        Refused{
            "near_tie", {"capture", "diff", kOwn, kOwn, "--near-tie", "nan"}, 2, {"--near-tie"}},
        Refused{"no_output", {"report", kOwn}, 2, {"--output"}},
        Refused{"report_onto_itself", {"report", kOwn, "-o", kOwn}, 2, {"would replace"}},
        Refused{"onto_like",
                {"capture", "convert", "out/olmoe-tiny.safetensors", kOwn, "--from", "megatron",
                 "--like", kOwn},
                2,
                {"would replace"}},
        Refused{"model_with_to",
                {"capture", "convert", kOwn, "x", "--to", "vllm", "--like", kOwn},
                2,
                {"--from"}},
        Refused{"attach_nowhere",
                {"capture", "attach", "a", "-o", "/proc/x.safetensors", "--wait", "60"},
                2,
                {"/proc/x.safetensors"}},
        Refused{"no_folder",
                {"run", "RUN:olmoe-tiny", "--set", "capture[0].to=file", "--set",
                 "capture[0].options.folder=/nowhere"},
                2,
                {"/nowhere"}},
        Refused{"no_segment",
                {"capture", "attach", "no-such-run", "-o", "x"},
                2,
                {"no segment 'no-such-run'"}},
        Refused{"wait", {"capture", "attach", "a", "-o", "x", "--wait", "soon"}, 2, {"--wait"}},
        Refused{"option",
                {"run", "RUN:olmoe-tiny", "--set", "capture[0].options.max_row=5"},
                2,
                {"max_row"}},
        Refused{"unreadable",
                {"run", "RUN:olmoe-tiny", "--set", "capture[0].to=shared_memory"},
                2,
                {"keeps no rows", "capture.path"}}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace moert::testing
