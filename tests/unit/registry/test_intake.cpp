// What the registry takes in: copies, stubs, rules, rejections.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include <moert/abi/device.h>
#include <moert/abi/moe_runner.h>
#include <moert/error.hpp>

#include "plugins.hpp"
#include "registry/registry.hpp"
#include "registry/tables.hpp"

namespace moert::registry {
namespace {

using test::Plugin;
using test::quant_table;
using test::router_table;

TEST(Intake, CandidateHoldsWhatTheFeatureSays) {
  const moert_router_t table = router_table();
  const moert_kv_t caps[] = {{"device", "cpu"}, {"methods", ""}};
  Plugin plugin("fast", "1.2.3");
  moert_feature_t& feature = plugin.feature(MOERT_KIND_ROUTER, "fast.router", &table, 77);
  feature.caps = caps;
  feature.n_caps = 2;
  feature.flags = MOERT_FEATURE_PIN_ONLY;
  Registry registry;
  registry.add(plugin.get(), "/x/libmoert_fast.so", false);
  const Candidate* found = registry.find(MOERT_KIND_ROUTER, "fast.router");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->kind, "moert.router/1");
  EXPECT_EQ(found->plugin_id, "org.test.fast");
  EXPECT_EQ(found->plugin_name, "fast");
  EXPECT_EQ(found->plugin_version, "1.2.3");
  EXPECT_EQ(found->origin, "/x/libmoert_fast.so");
  EXPECT_EQ(found->rank, 77);
  EXPECT_EQ(found->flags, uint32_t{MOERT_FEATURE_PIN_ONLY});
  const std::vector<std::pair<std::string, std::string>> want = {{"device", "cpu"},
                                                                 {"methods", ""}};
  EXPECT_EQ(found->caps, want);
  EXPECT_EQ(table_of<moert_router_t>(*found)->route, table.route);
  EXPECT_NE(found->table.get(), &table) << "the table must be a copy";
  EXPECT_EQ(registry.find(MOERT_KIND_ROUTER, "fast.other"), nullptr);
  EXPECT_EQ(registry.find(MOERT_KIND_DEVICE, "fast.router"), nullptr);
}

TEST(Intake, AbsentOptionalEntriesAnswerUnimplemented) {
  const moert_quant_method_t table = quant_table();
  Plugin plugin("q");
  plugin.feature(MOERT_KIND_QUANT_METHOD, "q.x", &table);
  Registry registry;
  registry.add(plugin.get(), "core", false);
  const auto* full = table_of<moert_quant_method_t>(*registry.find(MOERT_KIND_QUANT_METHOD, "q.x"));
  moert_error_t error{};
  error.struct_size = sizeof error;
  ASSERT_NE(full->encode, nullptr);
  EXPECT_EQ(full->encode(nullptr, nullptr, nullptr, &error), MOERT_UNIMPLEMENTED);
  EXPECT_EQ(error.code, MOERT_UNIMPLEMENTED);
  EXPECT_STREQ(error.where, "encode");
  EXPECT_NE(error.message[0], '\0');
  EXPECT_EQ(full->encode(nullptr, nullptr, nullptr, nullptr), MOERT_UNIMPLEMENTED);
  // An absent quantize_activations means that activations are left alone.
  float row[2] = {1.5f, -2.5f};
  ASSERT_NE(full->quantize_activations, nullptr);
  EXPECT_EQ(full->quantize_activations(nullptr, row, 1, 2, nullptr, &error), MOERT_OK);
  EXPECT_EQ(row[0], 1.5f);
  EXPECT_EQ(row[1], -2.5f);
}

TEST(Intake, StubLeavesASmallerErrorRecordAlone) {
  const moert_quant_method_t table = quant_table();
  Plugin plugin("q");
  plugin.feature(MOERT_KIND_QUANT_METHOD, "q.x", &table);
  Registry registry;
  registry.add(plugin.get(), "core", false);
  moert_error_t error;
  std::memset(&error, 0x5A, sizeof error);
  error.struct_size = 8;
  const moert_error_t before = error;
  const auto* full = table_of<moert_quant_method_t>(*registry.find(MOERT_KIND_QUANT_METHOD, "q.x"));
  EXPECT_EQ(full->encode(nullptr, nullptr, nullptr, &error), MOERT_UNIMPLEMENTED);
  EXPECT_EQ(std::memcmp(&before, &error, sizeof error), 0);
}

// Entries are pointers behind two (device: kind; else flags) words. Those behind revision 1 came later.
uint32_t full_size(const Kind& kind) {
  return static_cast<uint32_t>(8 + kind.entries.size() * sizeof(void*));
}

// For every kind: a table whose every entry is set, which is then broken in each way there is.
class EveryKind : public testing::TestWithParam<std::string> {
 protected:
  std::vector<void*> full_table() const {
    const Kind* kind = find_kind(GetParam());
    std::vector<void*> words(1 + kind->entries.size(), reinterpret_cast<void*>(&nothing));
    const uint32_t head[2] = {full_size(*kind), 7};
    std::memcpy(words.data(), head, sizeof head);
    return words;
  }
  static void nothing() {}
};

TEST_P(EveryKind, SizesAreThoseOfTheHeader) {
  const Kind* kind = find_kind(GetParam());
  ASSERT_NE(kind, nullptr);
  EXPECT_LE(kind->revision1, full_size(*kind)) << "an entry is not listed";
}

TEST_P(EveryKind, EachEntryIsRequiredOrStubbed) {
  const Kind* kind = find_kind(GetParam());
  std::string problem;
  std::vector<void*> table = full_table();
  ASSERT_NE(take_table(*kind, table.data(), problem), nullptr) << problem;
  for (size_t i = 0; i < kind->entries.size(); ++i) {
    std::vector<void*> broken = table;
    broken[1 + i] = nullptr;
    problem.clear();
    const auto taken = take_table(*kind, broken.data(), problem);
    const Entry& entry = kind->entries[i];
    EXPECT_EQ(taken == nullptr, entry.required) << entry.name;
    if (entry.required)
      EXPECT_NE(problem.find(std::string("'") + entry.name + "'"), std::string::npos) << problem;
    else
      EXPECT_TRUE(entry.present(taken.get())) << entry.name;
  }
}

TEST_P(EveryKind, SizesOutOfBoundsAreErrors) {
  const Kind* kind = find_kind(GetParam());
  for (const uint32_t size : {0u, 8u, kind->revision1 - 1, 65537u, UINT32_MAX}) {
    std::vector<void*> table = full_table();
    std::memcpy(table.data(), &size, sizeof size);
    std::string problem;
    EXPECT_EQ(take_table(*kind, table.data(), problem), nullptr) << size;
    EXPECT_NE(problem.find(std::to_string(size)), std::string::npos) << problem;
  }
  std::string problem;
  EXPECT_EQ(take_table(*kind, nullptr, problem), nullptr);
  EXPECT_NE(problem.find("NULL"), std::string::npos);
}

TEST_P(EveryKind, LaterRevisionIsCutToWhatIsKnown) {
  const Kind* kind = find_kind(GetParam());
  std::vector<void*> table = full_table();
  table.resize(table.size() + 16, reinterpret_cast<void*>(uintptr_t{0xEFEFEFEF}));
  const uint32_t size = static_cast<uint32_t>(table.size() * sizeof(void*));
  std::memcpy(table.data(), &size, sizeof size);
  std::string problem;
  const auto taken = take_table(*kind, table.data(), problem);
  ASSERT_NE(taken, nullptr) << problem;
  uint32_t seen = 0;
  std::memcpy(&seen, taken.get(), sizeof seen);
  EXPECT_EQ(seen, full_size(*kind));
}

// A plugin that was built before an entry was appended: the entry answers that it is absent.
TEST_P(EveryKind, TablesOfRevisionOneAreTakenAndTheRestAreStubs) {
  const Kind* kind = find_kind(GetParam());
  std::vector<void*> table = full_table();
  std::memcpy(table.data(), &kind->revision1, sizeof kind->revision1);
  for (size_t i = kind->revision1 / sizeof(void*); i < table.size(); ++i)
    table[i] = reinterpret_cast<void*>(uintptr_t{0xEFEF});  // beyond the plugin's table
  std::string problem;
  const auto taken = take_table(*kind, table.data(), problem);
  ASSERT_NE(taken, nullptr) << problem;
  for (const Entry& entry : kind->entries) EXPECT_TRUE(entry.present(taken.get())) << entry.name;
  if (GetParam() != MOERT_KIND_MOE_RUNNER) return;
  moert_error_t error{};
  error.struct_size = sizeof error;
  EXPECT_EQ(
      static_cast<const moert_moe_runner_t*>(taken.get())->load_layer(nullptr, nullptr, &error),
      MOERT_UNIMPLEMENTED);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryKind, testing::ValuesIn(kind_ids()),
                         [](const auto& test_info) {
                           std::string name = test_info.param.substr(6);
                           return name.substr(0, name.find('/'));
                         });

TEST(Kinds, AllEight) { EXPECT_EQ(kind_ids().size(), 8u); }

TEST(Intake, DeviceKindMustNotBeZero) {
  const Kind* kind = find_kind(MOERT_KIND_DEVICE);
  std::vector<void*> table(1 + kind->entries.size(), reinterpret_cast<void*>(uintptr_t{16}));
  const uint32_t head[2] = {kind->revision1, 0};
  std::memcpy(table.data(), head, sizeof head);
  std::string problem;
  EXPECT_EQ(take_table(*kind, table.data(), problem), nullptr);
  EXPECT_NE(problem.find("device kind is 0"), std::string::npos) << problem;
}

// One rule broken: the plugin's good feature must not stay either.
struct Broken {
  const char* name;
  std::function<void(moert_feature_t&)> damage;
  const char* text;
};
class BrokenFeature : public testing::TestWithParam<Broken> {};

TEST_P(BrokenFeature, TakesTheWholePluginOut) {
  const moert_router_t table = router_table();
  Plugin plugin("fast");
  plugin.feature(MOERT_KIND_ROUTER, "fast.good", &table);
  GetParam().damage(plugin.feature(MOERT_KIND_ROUTER, "fast.bad", &table));
  Registry registry;
  try {
    registry.add(plugin.get(), "/x/libmoert_fast.so", true);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::plugin);
    EXPECT_NE(e.problem().find(GetParam().text), std::string::npos) << e.what();
    EXPECT_NE(e.problem().find("org.test.fast"), std::string::npos) << e.what();
    EXPECT_EQ(e.place(), "/x/libmoert_fast.so");
    EXPECT_FALSE(e.remedy().empty());
  }
  EXPECT_TRUE(registry.candidates(MOERT_KIND_ROUTER).empty());
  EXPECT_TRUE(registry.rejections().empty());
}

INSTANTIATE_TEST_SUITE_P(
    Rules, BrokenFeature,
    testing::Values(
        Broken{"NullTable", [](auto& f) { f.table = nullptr; }, "table is NULL"},
        Broken{"NullKind", [](auto& f) { f.kind = nullptr; }, "kind is missing"},
        Broken{"EmptyKind", [](auto& f) { f.kind = ""; }, "kind is missing"},
        Broken{"NullName", [](auto& f) { f.name = nullptr; }, "name is missing"},
        Broken{"OtherPluginsName", [](auto& f) { f.name = "cpu.router"; }, "'fast.'"},
        Broken{"PrefixWithoutDot", [](auto& f) { f.name = "fastest"; }, "'fast.'"},
        Broken{"NothingAfterTheDot", [](auto& f) { f.name = "fast."; }, "'fast.'"},
        Broken{"UpperCase", [](auto& f) { f.name = "fast.Router"; }, "a-z"},
        Broken{"Space", [](auto& f) { f.name = "fast.a b"; }, "a-z"},
        Broken{"ShortFeature", [](auto& f) { f.struct_size = 16; }, "struct_size is 16"},
        Broken{"HugeFeature", [](auto& f) { f.struct_size = 1u << 20; }, "struct_size is 1048576"},
        Broken{"NullCaps", [](auto& f) { f.n_caps = 1; }, "capabilities are NULL"},
        Broken{"ManyCaps", [](auto& f) { f.n_caps = 1u << 30; }, "1073741824 capabilities"},
        Broken{"NullCapValue",
               [](auto& f) {
                 static const moert_kv_t caps[] = {{"device", nullptr}};
                 f.caps = caps, f.n_caps = 1;
               },
               "no key or no value"}),
    [](const auto& test_info) { return test_info.param.name; });

TEST(Intake, UnknownKindsAreRejectionsAndNeverLookedInto) {
  const moert_router_t table = router_table();
  Plugin plugin("fast");
  plugin.feature("moert.teleport/1", "fast.teleport", nullptr);
  plugin.feature(MOERT_KIND_ROUTER, "fast.router", &table);
  plugin.feature("moert.router/2", "fast.router", nullptr);
  Registry registry;
  registry.add(plugin.get(), "core", false);
  EXPECT_EQ(registry.candidates(MOERT_KIND_ROUTER).size(), 1u);
  ASSERT_EQ(registry.rejections().size(), 2u);
  EXPECT_NE(registry.rejections()[0].reason.find("does not know"), std::string::npos);
  EXPECT_NE(registry.rejections()[1].reason.find("moert.router/1"), std::string::npos);
}

TEST(Intake, FirstOfTwoNamesWins) {
  const moert_router_t table = router_table();
  Plugin first("fast"), second("fast");
  first.feature(MOERT_KIND_ROUTER, "fast.router", &table, 1);
  first.feature(MOERT_KIND_ROUTER, "fast.router", &table, 2);
  second.feature(MOERT_KIND_ROUTER, "fast.router", &table, 3);
  second.feature(MOERT_KIND_ROUTER, "fast.other", &table, 4);
  Registry registry;
  registry.add(first.get(), "/first", false);
  registry.add(second.get(), "/second", false);
  EXPECT_EQ(registry.find(MOERT_KIND_ROUTER, "fast.router")->rank, 1);
  EXPECT_EQ(registry.find(MOERT_KIND_ROUTER, "fast.other")->rank, 4);
  ASSERT_EQ(registry.rejections().size(), 2u);
  EXPECT_NE(registry.rejections()[1].reason.find("/first"), std::string::npos);
}

TEST(Intake, ThirdPartiesAreClamped) {
  const moert_router_t table = router_table();
  for (const auto& [declared, third_party, want] :
       {std::tuple{MOERT_RANK_BEST, true, MOERT_RANK_GOOD},
        {MOERT_RANK_BEST, false, MOERT_RANK_BEST},
        {MOERT_RANK_LOW, true, MOERT_RANK_LOW},
        {MOERT_RANK_GOOD, true, MOERT_RANK_GOOD}}) {
    Plugin plugin("fast");
    plugin.feature(MOERT_KIND_ROUTER, "fast.router", &table, declared);
    Registry registry;
    registry.add(plugin.get(), "/x", third_party);
    EXPECT_EQ(registry.find(MOERT_KIND_ROUTER, "fast.router")->rank, int32_t{want});
  }
}

TEST(Intake, FrozenRegistryTakesNothing) {
  const moert_router_t table = router_table();
  Plugin plugin("fast");
  plugin.feature(MOERT_KIND_ROUTER, "fast.router", &table);
  Registry registry;
  registry.freeze();
  EXPECT_THROW(registry.add(plugin.get(), "/x", false), Error);
  EXPECT_TRUE(registry.candidates(MOERT_KIND_ROUTER).empty());
}

TEST(Intake, CandidatesComeByName) {
  const moert_router_t table = router_table();
  Plugin plugin("p");
  for (const char* name : {"p.c", "p.a", "p.b_", "p.b", "p.b.a"})
    plugin.feature(MOERT_KIND_ROUTER, name, &table);
  Registry registry;
  registry.add(plugin.get(), "core", false);
  std::vector<std::string> names;
  for (const Candidate* candidate : registry.candidates(MOERT_KIND_ROUTER))
    names.push_back(candidate->name);
  EXPECT_EQ(names, (std::vector<std::string>{"p.a", "p.b", "p.b.a", "p.b_", "p.c"}));
}

}  // namespace
}  // namespace moert::registry
