// `moert bench experts`: who is measured, what the figures are of, what is refused. No time is judged.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <ostream>

#include "program.hpp"

namespace moert::testing {
namespace {

std::vector<std::string> bench(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"bench", "experts"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// Small enough to be encoded, packed and computed at once; two layers take turns.
Ended small(std::vector<std::string> more) {
  std::vector<std::string> arguments =
      bench({"--shape", "64x32x8x2", "--layers", "2", "--repeat", "5", "--json"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_moert(arguments);
}

constexpr double kWeightsOfExpert = 3 * 64 * 32, kExperts = 8, kTopK = 2;

struct Scheme {
  const char* word;
  double bits;  // of a weight, with its share of the scales
};

// int8 has a scale for each row: 32 of 64 columns, 64 of 32.
const Scheme kSchemes[] = {{"bf16", 16},
                           {"f16", 16},
                           {"f32", 32},
                           {"mxfp4", 4.25},
                           {"int4", 5},
                           {"int8", 8 + 32.0 * (32 + 32 + 64) / kWeightsOfExpert},
                           {"fp8", 8 + 3 * 32.0 / kWeightsOfExpert},
                           {"fp8_e4m3fn.tensor.f32", 8 + 3 * 32.0 / kWeightsOfExpert}};

TEST(BenchExperts, EverySchemeIsMeasuredByTheOracle) {
  std::string words;
  for (const Scheme& scheme : kSchemes)
    words += (words.empty() ? "" : ",") + std::string(scheme.word);
  const Ended ended =
      small({"--scheme", words, "--tokens", "1,3", "--candidates", "cpu.ref", "--no-probes"});
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  const Json json = ended.json();
  ASSERT_EQ(json.at("entrants").size(), std::size(kSchemes)) << MOERT_SHOW(ended);
  ASSERT_EQ(json.at("points").size(), 2 * std::size(kSchemes)) << MOERT_SHOW(ended);
  for (size_t i = 0; i < std::size(kSchemes); ++i) {
    const Json& entrant = json.at("entrants").at(i);
    SCOPED_TRACE(entrant.dump());
    EXPECT_EQ(entrant.at("scheme"), kSchemes[i].word);
    EXPECT_TRUE(entrant.at("accepted").get<bool>());
    EXPECT_EQ(entrant.at("layers"), 2);
    EXPECT_DOUBLE_EQ(entrant.at("stored_bytes").get<double>(),
                     kExperts * kWeightsOfExpert * kSchemes[i].bits / 8);
    EXPECT_GT(entrant.at("packing_gb_per_s").get<double>(), 0);
  }
}

// What is derived follows from the times and the sizes.
TEST(BenchExperts, FiguresBelongTogether) {
  const Ended ended = small({"--tokens", "1,3", "--candidates", "cpu.ref", "--no-probes"});
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  const Json json = ended.json();
  ASSERT_EQ(json.at("points").size(), 2u) << MOERT_SHOW(ended);
  for (const Json& point : json.at("points")) {
    SCOPED_TRACE(point.dump());
    const double tokens = point.at("tokens").get<double>(),
                 ms = point.at("median_ms").get<double>();
    const double experts = point.at("experts_read").get<double>();
    EXPECT_EQ(point.at("sample_count"), 5);
    EXPECT_EQ(point.at("samples_ms").size(), 5u);
    EXPECT_GT(ms, 0);
    EXPECT_EQ(point.at("samples_ms").at(2).get<double>(), ms);
    EXPECT_LE(point.at("least_ms").get<double>(), point.at("quartile1_ms").get<double>());
    EXPECT_LE(point.at("quartile1_ms").get<double>(), ms);
    EXPECT_LE(ms, point.at("quartile3_ms").get<double>());
    EXPECT_LE(point.at("quartile3_ms").get<double>(), point.at("most_ms").get<double>());
    EXPECT_NEAR(point.at("gflop_per_s").get<double>() * ms * 1e6,
                2 * kWeightsOfExpert * kTopK * tokens, 1);
    EXPECT_GE(experts, kTopK);
    EXPECT_LE(experts, kTopK * tokens);
    if (tokens > 1) continue;
    EXPECT_EQ(experts, kTopK);
    EXPECT_NEAR(point.at("gb_per_s").get<double>() * ms * 1e6, 2 * kWeightsOfExpert * kTopK, 1);
    EXPECT_TRUE(point.at("read_probe_gb_per_s").is_null());
    EXPECT_TRUE(point.at("arithmetic_probe_gflop_per_s").is_null());
  }
}

TEST(BenchExperts, ProbesAndConditionsStandBeside) {
  const Ended ended = small({"--tokens", "1", "--candidates", "cpu.ref,null.routed_experts",
                             "--cache-mb", "1", "--threads", "2"});
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  const Json json = ended.json();
  const Json& conditions = json.at("conditions");
  for (const char* key : {"version", "compiler", "build_type", "processor", "extensions", "cpu_isa",
                          "arithmetic_probe"})
    EXPECT_TRUE(conditions.at(key).is_string()) << key << MOERT_SHOW(ended);
  EXPECT_EQ(conditions.at("threads"), 2);
  EXPECT_EQ(conditions.at("cache_bytes"), 1'000'000);
  EXPECT_EQ(conditions.at("repeat"), 5);
  EXPECT_EQ(conditions.at("shape").at("hidden_size"), 64);
  ASSERT_EQ(json.at("points").size(), 2u) << MOERT_SHOW(ended);
  for (const Json& point : json.at("points"))
    for (const char* probe : {"read_probe_gb_per_s", "arithmetic_probe_gflop_per_s"}) {
      SCOPED_TRACE(point.dump());
      const double before = point.at(probe).at("before").get<double>();
      const double after = point.at(probe).at("after").get<double>();
      EXPECT_GT(before, 0);
      EXPECT_GT(after, 0);
      EXPECT_NEAR(point.at(probe).at("difference").get<double>(),
                  std::abs(before - after) / std::max(before, after), 1e-9);
      EXPECT_GT(point.at(probe).at("reached").get<double>(), 0);
    }
}

// On a device that is not the host: the simulated one. Two layers take turns, so that both have a graph.
Ended on_device(std::vector<std::string> more, const Start& start = {}) {
  std::vector<std::string> arguments = bench(
      {"--plugin-path", MOERT_BINARY_DIR "/lib/moert/test-plugins/libmoert_sim32.so", "--shape",
       "64x32x8x2", "--layers", "2", "--repeat", "3", "--cache-mb", "1", "--json"});
  if (std::find(more.begin(), more.end(), "--device") == more.end())
    more.insert(more.end(), {"--device", "sim32:0"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_moert(arguments, start);
}

TEST(BenchExpertsOnDevice, ItsOwnCandidatesAreTimedAsGraphs) {
  const Ended ended = on_device({"--tokens", "1,3", "--scheme", "bf16,mxfp4"});
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  const Json json = ended.json();
  const Json& device = json.at("conditions").at("device");
  EXPECT_EQ(device.at("id"), "sim32:0");
  EXPECT_EQ(device.at("timing"), "events around recorded graphs");
  EXPECT_EQ(device.at("graphs"), true);
  EXPECT_EQ(json.at("conditions").at("cache_assumed"), false);
  EXPECT_TRUE(json.at("conditions").at("arithmetic_probe").is_null());
  ASSERT_EQ(json.at("entrants").size(), 2u) << MOERT_SHOW(ended);
  for (const Json& entrant : json.at("entrants"))
    EXPECT_EQ(entrant.at("candidate"), "sim32.experts");
  ASSERT_EQ(json.at("points").size(), 4u) << MOERT_SHOW(ended);
  for (const Json& point : json.at("points")) {
    SCOPED_TRACE(point.dump());
    const double ms = point.at("median_ms").get<double>();
    EXPECT_EQ(point.at("sample_count"), 3);
    EXPECT_NEAR(point.at("gflop_per_s").get<double>() * ms * 1e6,
                2 * kWeightsOfExpert * kTopK * point.at("tokens").get<double>(), 1);
    EXPECT_TRUE(point.at("read_probe_gb_per_s").is_null());
    EXPECT_TRUE(point.at("arithmetic_probe_gflop_per_s").is_null());
    const Json& copy = point.at("copy_probe_gb_per_s");
    EXPECT_GT(copy.at("before").get<double>(), 0);
    EXPECT_GT(copy.at("after").get<double>(), 0);
    EXPECT_GT(copy.at("reached").get<double>(), 0);
  }
}

TEST(BenchExpertsOnDevice, CallsAreTimedWhereGraphsAreNotWanted) {
  const Ended ended = on_device({"--tokens", "1", "--no-graph", "--no-probes"});
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  const Json json = ended.json();
  EXPECT_EQ(json.at("conditions").at("device").at("timing"), "events around calls");
  EXPECT_EQ(json.at("conditions").at("device").at("graphs"), false);
  ASSERT_EQ(json.at("points").size(), 1u) << MOERT_SHOW(ended);
  EXPECT_TRUE(json.at("points").at(0).at("copy_probe_gb_per_s").is_null());
}

TEST(BenchExpertsOnDevice, OptionsReachTheCandidate) {
  const Ended ended = on_device({"--tokens", "3", "--no-probes", "--option", "gemm=wgmma"});
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  EXPECT_EQ(ended.json().at("conditions").at("options").at("gemm"), "wgmma") << MOERT_SHOW(ended);
  EXPECT_EQ(ended.json().at("points").size(), 1u) << MOERT_SHOW(ended);
}

// Where one format can't be served so, the others still are.
TEST(BenchExpertsOnDevice, WhatAnOptionCannotDoIsARowThatSaysWhy) {
  const Ended mixed =
      on_device({"--tokens", "1", "--no-probes", "--scheme", "f32,bf16", "--option", "gemm=wgmma"});
  ASSERT_EQ(mixed.code, 0) << MOERT_SHOW(mixed);
  const Json entrants = mixed.json().at("entrants");
  EXPECT_FALSE(entrants.at(0).at("accepted").get<bool>()) << MOERT_SHOW(mixed);
  EXPECT_TRUE(contains(entrants.at(0).at("reason").get<std::string>(), "decoded to f32"))
      << MOERT_SHOW(mixed);
  EXPECT_TRUE(entrants.at(1).at("accepted").get<bool>()) << MOERT_SHOW(mixed);
  EXPECT_EQ(mixed.json().at("points").size(), 1u) << MOERT_SHOW(mixed);
  const Ended alone =
      on_device({"--tokens", "1", "--no-probes", "--scheme", "f32", "--option", "gemm=wgmma"});
  EXPECT_EQ(alone.code, 4) << MOERT_SHOW(alone);
}

TEST(BenchExpertsOnDevice, OthersAreRefusedWhenNamed) {
  const Ended ended =
      on_device({"--tokens", "1", "--candidates", "cpu.ref,sim32.experts", "--no-probes"});
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  const Json entrants = ended.json().at("entrants");
  EXPECT_FALSE(entrants.at(0).at("accepted").get<bool>()) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(entrants.at(0).at("reason").get<std::string>(), "sim32"))
      << MOERT_SHOW(ended);
  EXPECT_TRUE(entrants.at(1).at("accepted").get<bool>()) << MOERT_SHOW(ended);
}

TEST(BenchExpertsOnDevice, TheProcessorIsOneByTheClock) {
  const Ended ended = small({"--tokens", "1", "--candidates", "cpu.ref", "--no-probes"});
  const Json device = ended.json().at("conditions").at("device");
  EXPECT_EQ(device.at("id"), "cpu:0") << MOERT_SHOW(ended);
  EXPECT_EQ(device.at("timing"), "clock");
}

TEST(BenchExpertsOnDevice, TablesSayWhatTheSharesAreOf) {
  std::vector<std::string> arguments =
      bench({"--plugin-path", MOERT_BINARY_DIR "/lib/moert/test-plugins/libmoert_sim32.so",
             "--device", "sim32", "--shape", "64x32x8x2", "--layers", "1", "--repeat", "1",
             "--cache-mb", "1", "--tokens", "1"});
  const Ended ended = run_moert(arguments);
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  for (const char* words : {"sim32:0: MoERT simulator 0", "events around recorded graphs",
                            "rate of copying", "of copy", "copy GB/s"})
    EXPECT_TRUE(contains(ended.out, words)) << words << MOERT_SHOW(ended);
  EXPECT_FALSE(contains(ended.out, "of peak")) << MOERT_SHOW(ended);
}

struct NoDevice {
  const char* name;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;
  std::vector<std::string> said;
};

void PrintTo(const NoDevice& tested, std::ostream* out) { *out << tested.name; }

class BenchExpertsWithoutDevice : public ::testing::TestWithParam<NoDevice> {};

TEST_P(BenchExpertsWithoutDevice, SaysWhy) {
  const Ended ended = on_device(GetParam().arguments, {.environment = GetParam().environment});
  EXPECT_EQ(ended.code, 5) << MOERT_SHOW(ended);
  for (const std::string& words : GetParam().said)
    EXPECT_TRUE(contains(ended.err, words)) << words << MOERT_SHOW(ended);
}

INSTANTIATE_TEST_SUITE_P(
    Command, BenchExpertsWithoutDevice,
    ::testing::Values(
        NoDevice{"none", {}, {{"MOERT_SIM_DEVICES", "0"}}, {"no device for 'sim32:0'", "is 0"}},
        NoDevice{"number", {"--device", "sim32:7"}, {}, {"'sim32:7'", "number 7"}},
        NoDevice{"unknown", {"--device", "tpu:0"}, {}, {"no plugin offers such a device"}},
        NoDevice{"memory",
                 {"--shape", "512x512x64x2", "--candidates", "sim32.experts"},
                 {{"MOERT_SIM_MEMORY_MB", "64"}},
                 {"not enough memory on sim32:0", "are needed for 512x512x64x2 in bf16"}},
        NoDevice{"lead",
                 {"--cache-mb", "100"},
                 {{"MOERT_SIM_MEMORY_MB", "64"}},
                 {"no memory on sim32:0", "the copies that empty the caches", "--cache-mb"}}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(BenchExperts, WhoRefusesHasARowThatSaysWhy) {
  const std::vector<std::string> odd = {"--shape",      "33x7x5x3", "--tokens", "1", "--no-probes",
                                        "--candidates", "cpu.simd", "--layers", "1"};
  const auto with = [&](const char* schemes) {
    std::vector<std::string> all = odd;
    all.insert(all.end(), {"--seconds", "0.01", "--json", "--scheme", schemes});
    return run_moert(bench(all));
  };
  const Ended mixed = with("mxfp4,bf16");
  ASSERT_EQ(mixed.code, 0) << MOERT_SHOW(mixed);
  const Json both = mixed.json();
  EXPECT_FALSE(both.at("entrants").at(0).at("accepted").get<bool>());
  EXPECT_TRUE(contains(both.at("entrants").at(0).at("reason").get<std::string>(), "33")) << both;
  EXPECT_TRUE(both.at("entrants").at(1).at("accepted").get<bool>());
  EXPECT_TRUE(contains(both.at("entrants").at(1).at("reason").get<std::string>(), "instructions"))
      << both;
  EXPECT_EQ(both.at("points").size(), 1u);
  EXPECT_EQ(with("mxfp4").code, 4);
}

// What is no help is not said.
TEST(BenchExperts, TheOracleIsOfferedWhereItWouldServe) {
  const auto said = [](std::vector<std::string> more) {
    more.insert(more.end(), {"--tokens", "1", "--layers", "1", "--repeat", "1", "--no-probes",
                             "--cache-mb", "1"});
    const Ended ended = run_moert(bench(more));
    EXPECT_EQ(ended.code, 4) << MOERT_SHOW(ended);
    EXPECT_TRUE(contains(ended.out, "nothing was measured")) << MOERT_SHOW(ended);
    return contains(ended.out, "asks cpu.ref");
  };
  const std::vector<std::string> host = {"--shape", "33x7x5x3", "--scheme", "mxfp4"};
  std::vector<std::string> named = host;
  named.insert(named.end(), {"--candidates", "cpu.simd"});
  EXPECT_TRUE(said(host));
  EXPECT_FALSE(said(named));
  EXPECT_FALSE(said({"--plugin-path", MOERT_BINARY_DIR "/lib/moert/test-plugins/libmoert_sim32.so",
                     "--device", "sim32:0", "--shape", "64x32x8x2", "--scheme", "f32", "--option",
                     "gemm=wgmma"}));
}

// Else the oracle would serve, slowly, and nobody would know why.
TEST(Instructions, AWrongLevelIsAnError) {
  for (const auto& command :
       std::vector<std::vector<std::string>>{{"run", run_file("olmoe-f32")},
                                             {"explain", run_file("olmoe-f32")},
                                             {"env"},
                                             {"bench", "overhead"},
                                             bench({"--shape", "64x32x8x2"})}) {
    std::vector<std::string> all = command;
    all.insert(all.end(), {"--cpu-isa", "avx1024"});
    const Ended flag = run_moert(all);
    EXPECT_EQ(flag.code, 2) << MOERT_SHOW(flag);
    EXPECT_TRUE(contains(flag.err, "--cpu-isa") && contains(flag.err, "avx512_bf16"))
        << MOERT_SHOW(flag);
    const Ended variable = run_moert(command, {.environment = {{"MOERT_CPU_ISA", "AVX2"}}});
    EXPECT_EQ(variable.code, 2) << MOERT_SHOW(variable);
  }
  const Ended low = run_moert({"explain", run_file("olmoe-f32"), "--cpu-isa", "portable"});
  EXPECT_EQ(low.code, 0) << MOERT_SHOW(low);
  EXPECT_TRUE(contains(low.out, "instructions portable")) << MOERT_SHOW(low);
  const Ended tiles = run_moert({"explain", run_file("olmoe-f32"), "--cpu-isa", "amx_bf16"});
  EXPECT_TRUE(tiles.code == 0 || tiles.code == 4) << MOERT_SHOW(tiles);
}

TEST(BenchExperts, UnaskedNeitherTheOracleNorNull) {
  const Ended ended = small({"--tokens", "1", "--no-probes"});
  const Json json = ended.json();
  ASSERT_FALSE(json.at("entrants").empty()) << MOERT_SHOW(ended);
  for (const Json& entrant : json.at("entrants")) {
    EXPECT_NE(entrant.at("candidate"), "cpu.ref") << MOERT_SHOW(ended);
    EXPECT_NE(entrant.at("candidate"), "null.routed_experts") << MOERT_SHOW(ended);
  }
}

TEST(BenchExperts, HelpNamesShapesAndAliases) {
  const Ended ended = run_moert(bench({"--help"}));
  EXPECT_EQ(ended.code, 0);
  for (const char* word : {"olmoe", "qwen3-30b-a3b", "gpt-oss-20b", "gpt-oss-120b",
                           "deepseek-v2-lite", "mixtral-slice", "HxIxExk", "--device", "--no-graph",
                           "--option", "fp8.block128x128", "int4.g32", "int8.channel", "cpu.ref"})
    EXPECT_TRUE(contains(ended.out, word)) << word << MOERT_SHOW(ended);
}

struct Mistake {
  const char* name;
  std::vector<std::string> arguments;
  int code;
  std::vector<std::string> said;
};

void PrintTo(const Mistake& tested, std::ostream* out) { *out << tested.name; }

class BenchExpertsMistakes : public ::testing::TestWithParam<Mistake> {};

TEST_P(BenchExpertsMistakes, AreClearErrors) {
  const Ended ended = run_moert(bench(GetParam().arguments));
  EXPECT_EQ(ended.code, GetParam().code) << MOERT_SHOW(ended);
  EXPECT_EQ(ended.out, "") << MOERT_SHOW(ended);
  for (const std::string& words : GetParam().said)
    EXPECT_TRUE(contains(ended.err, words)) << words << MOERT_SHOW(ended);
}

INSTANTIATE_TEST_SUITE_P(
    Command, BenchExpertsMistakes,
    ::testing::Values(
        Mistake{"shape", {"--shape", "olmo"}, 2, {"--shape", "did you mean 'olmoe'"}},
        Mistake{"three_sizes", {"--shape", "64x32x8"}, 2, {"four sizes", "HxIxExk"}},
        Mistake{"size_zero", {"--shape", "64x0x8x2"}, 2, {"below 1"}},
        Mistake{"size_words", {"--shape", "64xax8x2"}, 2, {"'a'", "no number"}},
        Mistake{"few_experts", {"--shape", "64x32x8x9"}, 2, {"fewer experts"}},
        Mistake{"too_wide", {"--shape", "65537x32x8x2"}, 2, {"larger"}},
        Mistake{"memory", {"--shape", "65536x65536x4096x1"}, 5, {"not enough memory", "TB"}},
        Mistake{"scheme", {"--scheme", "fp9"}, 2, {"--scheme", "did you mean 'fp8'"}},
        Mistake{"scheme_blocks", {"--scheme", "fp8.block12"}, 2, {"fp8.block128x128"}},
        Mistake{"empty_item", {"--scheme", "bf16,,f16"}, 2, {"empty item"}},
        Mistake{"no_tokens", {"--tokens", "0"}, 2, {"--tokens", "from 1 to"}},
        Mistake{"tokens_words", {"--tokens", "4,many"}, 2, {"'many'", "--tokens"}},
        Mistake{"tokens_twice", {"--tokens", "4,4"}, 2, {"stands twice"}},
        Mistake{"candidate", {"--candidates", "cpu.sim"}, 2, {"did you mean 'cpu.simd'"}},
        Mistake{
            "option", {"--option", "gemm"}, 2, {"--option", "'gemm' is no option", "gemm=wgmma"}},
        Mistake{"option_empty", {"--option", "gemm="}, 2, {"'gemm=' is no option"}},
        Mistake{"option_twice", {"--option", "a=1", "--option", "a=2"}, 2, {"'a' is given twice"}},
        Mistake{"option_unknown",
                {"--shape", "64x32x8x2", "--candidates", "cpu.ref", "--layers", "1", "--no-probes",
                 "--option", "gemm=wgmma"},
                2,
                {"cpu.ref takes no such options", "unknown option 'gemm'", "--option"}},
        Mistake{"seconds", {"--seconds", "nan"}, 2, {"--seconds"}},
        Mistake{"repeat", {"--repeat", "-1"}, 2, {"--repeat"}},
        Mistake{"both", {"--repeat", "1", "--seconds", "1"}, 2, {"one of them"}},
        Mistake{"layers", {"--layers", "0"}, 2, {"--layers"}},
        Mistake{"cache", {"--cache-mb", "x"}, 2, {"--cache-mb"}}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace moert::testing
