// The choice: order, pins, fallback, determinism, and what the table says.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "registry/registry.hpp"

namespace moert::registry {
namespace {

// One candidate of the table below, and what it answers.
struct Player {
  std::string name;  // "plugin.rest"
  int32_t rank = MOERT_RANK_GOOD;
  int32_t score = 0;
  std::string version = "1.0.0";
  std::string refusal = {};  // empty: it accepts
  std::string device = {};
  uint32_t flags = 0;
};

class Game {
 public:
  explicit Game(const std::vector<Player>& players) {
    for (const Player& player : players) {
      auto made = std::make_unique<Candidate>();
      made->kind = "moert.router/1";
      made->name = player.name;
      made->plugin_name = player.name.substr(0, player.name.find('.'));
      made->plugin_id = "org.test." + made->plugin_name;
      made->plugin_version = player.version;
      made->rank = player.rank;
      made->flags = player.flags;
      if (!player.device.empty()) made->caps.emplace_back("device", player.device);
      players_[player.name] = player;
      candidates_.push_back(made.get());
      owned_.push_back(std::move(made));
    }
  }
  template <class Random>
  void shuffle(Random& random) {
    std::shuffle(candidates_.begin(), candidates_.end(), random);
  }
  Decision decide(const Policy& policy) {
    asked_.clear();
    return choose(candidates_, policy, [&](const Candidate& candidate) {
      asked_.push_back(candidate.name);
      const Player& player = players_.at(candidate.name);
      moert_support_t support{};
      support.struct_size = sizeof support;
      support.verdict = player.refusal.empty() ? 1 : 0;
      support.score = player.score;
      std::strncpy(support.reason, player.refusal.c_str(), sizeof support.reason - 1);
      return support;
    });
  }
  bool asked(const std::string& name) const {
    return std::find(asked_.begin(), asked_.end(), name) != asked_.end();
  }

 private:
  std::vector<std::unique_ptr<Candidate>> owned_;
  std::vector<const Candidate*> candidates_;
  std::map<std::string, Player> players_;
  std::vector<std::string> asked_;
};

std::string chosen(const Decision& decision) {
  return decision.chosen == nullptr ? "" : decision.chosen->name;
}

const Row* row_of(const Decision& decision, const std::string& name) {
  for (const Row& row : decision.rows)
    if (row.candidate == name) return &row;
  return nullptr;
}

struct Case {
  const char* name;
  std::vector<Player> players;
  Policy policy;
  std::string want;    // empty: nobody
  std::string reason;  // of the row `of`, or of the winner
  std::string of;
};
void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }

class Choose : public testing::TestWithParam<Case> {};

TEST_P(Choose, SameWinnerAndTableForEveryOrder) {
  const Case& test = GetParam();
  Game game(test.players);
  std::mt19937 random(20240501);
  std::string table;
  for (int i = 0; i < 100; ++i) {
    const Decision decision = game.decide(test.policy);
    EXPECT_EQ(chosen(decision), test.want) << decision_table(decision);
    const Row* row = row_of(decision, test.of.empty() ? test.want : test.of);
    ASSERT_NE(row, nullptr) << decision_table(decision);
    EXPECT_NE(row->reason.find(test.reason), std::string::npos) << decision_table(decision);
    EXPECT_EQ(std::count_if(decision.rows.begin(), decision.rows.end(),
                            [](const Row& r) { return r.state == Row::chosen; }),
              test.want.empty() ? 0 : 1);
    for (const Row& each : decision.rows) EXPECT_FALSE(each.reason.empty()) << each.candidate;
    if (i == 0) table = decision_table(decision);
    EXPECT_EQ(decision_table(decision), table);
    game.shuffle(random);
  }
}

Policy pin(std::string name) { return {std::move(name), {}, false, {}}; }
Policy prefer(std::vector<std::string> plugins, bool next, std::string device = {}) {
  return {{}, std::move(plugins), next, std::move(device)};
}

const std::vector<Player>& three() {
  static const std::vector<Player> players = {{"cpu.ref", MOERT_RANK_REFERENCE, 900},
                                              {"cpu.simd", MOERT_RANK_GOOD, 10},
                                              {"fast.x", MOERT_RANK_GOOD, 20}};
  return players;
}

// problem.h gives scores the range 0 to 1000: whoever answers more gains nothing by it.
TEST(ChooseScores, BeyondTheirRangeAreClamped) {
  Game game({{"a.x", MOERT_RANK_GOOD, INT32_MIN},
             {"b.x", MOERT_RANK_GOOD, 1000},
             {"c.x", MOERT_RANK_GOOD, INT32_MAX},
             {"d.x", MOERT_RANK_GOOD, 1001}});
  Policy any;
  const Decision decision = game.decide(any);
  EXPECT_EQ(chosen(decision), "b.x") << decision_table(decision);
  for (const auto& [name, score] :
       {std::pair{"a.x", 0}, {"b.x", 1000}, {"c.x", 1000}, {"d.x", 1000}})
    EXPECT_EQ(row_of(decision, name)->score, score) << name;
  const Decision named = game.decide(pin("c.x"));
  EXPECT_EQ(named.support.score, 1000);
}

INSTANTIATE_TEST_SUITE_P(
    Order, Choose,
    testing::Values(
        Case{"OnlyOne", {{"a.x"}}, {}, "a.x", "only one", ""},
        Case{"RankBeforeScore",
             {{"a.x", 64, 900}, {"b.x", 128, 0}},
             {},
             "b.x",
             "highest rank among 2",
             ""},
        Case{"LoserSaysWhy",
             {{"a.x", 64, 900}, {"b.x", 128, 0}},
             {},
             "b.x",
             "behind 'b.x': highest rank",
             "a.x"},
        Case{"ScoreBeforeVersion",
             three(),
             {},
             "fast.x",
             "highest rank, then highest score among 3",
             ""},
        Case{"VersionByNumbers",
             {{"a.x", 0, 0, "1.9.0"}, {"b.x", 0, 0, "1.10.0"}},
             {},
             "b.x",
             "latest version",
             ""},
        Case{"NameLast", {{"b.x"}, {"a.y"}, {"a.x"}}, {}, "a.x", "first by name among 3", ""},
        Case{"RefusalsDoNotCount",
             {{"a.x", 256, 0, "1.0.0", "no bf16"}, {"b.x", 0}},
             {},
             "b.x",
             "only one",
             ""},
        Case{"RefusalKeepsItsReason",
             {{"a.x", 256, 0, "1.0.0", "no bf16"}, {"b.x", 0}},
             {},
             "b.x",
             "no bf16",
             "a.x"},
        Case{"AllRefuse", {{"a.x", 0, 0, "1.0.0", "no bf16"}}, {}, "", "no bf16", "a.x"}),
    [](const auto& test_info) { return test_info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Pin, Choose,
    testing::Values(Case{"BeatsAll", three(), pin("cpu.ref"), "cpu.ref", "named", ""},
                    Case{"OthersAreNotAsked", three(), pin("cpu.ref"), "cpu.ref",
                         "another one is named", "fast.x"},
                    Case{"RefusalIsTheEnd",
                         {{"a.x", 0, 0, "1.0.0", "top_k over 8"}, {"b.x"}},
                         pin("a.x"),
                         "",
                         "top_k over 8",
                         "a.x"},
                    Case{"Misspelt", three(), pin("cpu.smid"), "", "did you mean 'cpu.simd'?",
                         "cpu.smid"},
                    Case{"Nobody", {}, pin("cpu.ref"), "", "no candidate of this name", "cpu.ref"},
                    Case{"PinOnlyNamed",
                         {{"a.x", 0, 0, "1.0.0", "", "", MOERT_FEATURE_PIN_ONLY}, {"b.x"}},
                         pin("a.x"),
                         "a.x",
                         "named",
                         ""},
                    Case{"PinOnlyUnnamed",
                         {{"a.x", 256, 0, "1.0.0", "", "", MOERT_FEATURE_PIN_ONLY}, {"b.x", 0}},
                         {},
                         "b.x",
                         "only used when named",
                         "a.x"}),
    [](const auto& test_info) { return test_info.param.name; });

const std::vector<Player>& refusing_cuda() {
  static const std::vector<Player> players = {
      {"cuda.x", MOERT_RANK_BEST, 0, "1.0.0", "needs sm_90", "cuda"},
      {"cpu.ref", MOERT_RANK_REFERENCE, 0, "1.0.0", "", "cpu"},
      {"other.x", MOERT_RANK_GOOD, 0, "1.0.0", "", "cpu, cuda"}};
  return players;
}

INSTANTIATE_TEST_SUITE_P(
    Prefer, Choose,
    testing::Values(
        Case{"BeforeRank", three(), prefer({"cpu"}, true), "cpu.simd", "preferred", ""},
        Case{"InOrder", three(), prefer({"hip", "cpu", "fast"}, false), "cpu.simd", "preferred",
             ""},
        Case{"UnlistedComeLast", three(), prefer({"cpu"}, true), "cpu.simd",
             "behind 'cpu.simd': its plugin", "fast.x"},
        Case{"AbsentPluginsAreNotNamed", three(), prefer({"cuda"}, false), "fast.x",
             "highest score", ""},
        Case{"ErrorStopsAtTheFirst", refusing_cuda(), prefer({"cuda", "cpu"}, false), "",
             "would serve, but 'cuda' is preferred", "cpu.ref"},
        Case{"NextGoesOn", refusing_cuda(), prefer({"cuda", "cpu"}, true), "cpu.ref", "preferred",
             ""},
        Case{"OtherDevicesPluginIsNotNamed", refusing_cuda(), prefer({"cuda", "cpu"}, false, "cpu"),
             "cpu.ref", "runs on cuda, the layer is on cpu", "cuda.x"},
        Case{"DeviceLists", refusing_cuda(), prefer({}, false, "cuda"), "other.x", "only one", ""},
        Case{"AnyDevice",
             {{"a.x", 0, 0, "1.0.0", "", "any"}},
             prefer({}, false, "hip"),
             "a.x",
             "only one",
             ""},
        Case{"NoDeviceNamed", {{"a.x"}}, prefer({}, false, "hip"), "a.x", "only one", ""}),
    [](const auto& test_info) { return test_info.param.name; });

TEST(Choose, OnlyThoseThatCouldServeAreAsked) {
  Game game({{"a.x", 0, 0, "1.0.0", "", "", MOERT_FEATURE_PIN_ONLY},
             {"b.x", 0, 0, "1.0.0", "", "cuda"},
             {"c.x"}});
  game.decide(prefer({}, false, "cpu"));
  EXPECT_FALSE(game.asked("a.x"));
  EXPECT_FALSE(game.asked("b.x"));
  EXPECT_TRUE(game.asked("c.x"));
  game.decide(pin("c.x"));
  EXPECT_FALSE(game.asked("b.x"));
}

TEST(Choose, SupportOfTheWinnerIsHandedOn) {
  Game game({{"a.x", 0, 321}});
  const Decision decision = game.decide({});
  EXPECT_EQ(decision.support.verdict, 1);
  EXPECT_EQ(decision.support.score, 321);
}

TEST(Choose, UnterminatedAndEmptyReasons) {
  Candidate candidate;
  candidate.name = "a.x";
  moert_support_t support{};
  const Ask ask = [&](const Candidate&) { return support; };
  EXPECT_NE(choose({&candidate}, {}, ask).rows[0].reason.find("mistake in the plugin"),
            std::string::npos);
  std::memset(support.reason, 'r', sizeof support.reason);
  support.reason[3] = '\n';
  EXPECT_EQ(choose({&candidate}, {}, ask).rows[0].reason, "rrr " + std::string(156, 'r'));
}

TEST(Choose, WhoAcceptsMaySayHowItServes) {
  Candidate candidate;
  candidate.name = "a.x";
  moert_support_t support{sizeof(moert_support_t), 1, 0, 0, 0, 0, {}, {}};
  const Ask ask = [&](const Candidate&) { return support; };
  EXPECT_EQ(choose({&candidate}, {}, ask).rows[0].reason, "the only one that accepts");
  std::strcpy(support.reason, "by hand");
  EXPECT_EQ(choose({&candidate}, {}, ask).rows[0].reason, "the only one that accepts; by hand");
  Policy named;
  named.pinned = "a.x";
  EXPECT_EQ(choose({&candidate}, named, ask).rows[0].reason, "named; by hand");
}

TEST(DecisionTable, Text) {
  Game game({{"cpu.ref", 0, 900},
             {"fast.simd", 128, 5, "2.0.0"},
             {"gpu.x", 128, 0, "1.0.0", "no device"}});
  EXPECT_EQ(decision_table(game.decide({})),
            "candidate  plugin      rank  score  verdict  reason\n"
            "fast.simd  fast 2.0.0   128      5  chosen   highest rank among 2 that accept\n"
            "gpu.x      gpu 1.0.0    128      0  refuses  no device\n"
            "cpu.ref    cpu 1.0.0      0    900  accepts  behind 'fast.simd': highest rank\n");
  EXPECT_EQ(decision_table(Decision{}), "no plugin has a candidate of this kind\n");
}

}  // namespace
}  // namespace moert::registry
