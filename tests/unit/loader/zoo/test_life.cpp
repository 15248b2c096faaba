// After opening: the floating-point environment, start and stop, the registry, errors across the border.
// SPDX-License-Identifier: Apache-2.0
#include <cfenv>
#include <limits>

#include <moert/abi/pluggable_layer.h>
#include <moert/abi/routed_experts.h>
#include <moert/error.hpp>

#include "registry/registry.hpp"
#include "zoo.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace moert::loader {
namespace {

using namespace test;

// A host that writes down what plugins say.
struct Host {
  std::vector<std::string> said;
  moert_host_t table{};
  Host() {
    table.struct_size = sizeof table;
    table.ctx = this;
    table.log = [](void* ctx, int32_t, const char*, int32_t line, const char* text) {
      static_cast<Host*>(ctx)->said.push_back(std::string(text) + " " + std::to_string(line));
    };
  }
};

bool denormals_are_kept() {
  volatile float tiny = std::numeric_limits<float>::denorm_min();
  volatile float product = tiny * 2.0f;
  return product > 0.0f;
}

unsigned control_word() {
#if defined(__x86_64__)
  return _mm_getcsr() & ~0x3fu;  // without the flags of what happened
#else
  return 0;
#endif
}

TEST(FloatingPoint, SurvivesEveryStep) {
  Host host;
  const unsigned before = control_word();
  ASSERT_TRUE(denormals_are_kept());
  const Options options = options_for({built("fast_math")});
  const auto expect_kept = [&](const char* step) {
    EXPECT_EQ(control_word(), before) << step;
    EXPECT_EQ(std::fegetround(), FE_TONEAREST) << step;
    EXPECT_TRUE(denormals_are_kept()) << step;
  };
  Result result = load(options, ignore_log);
  ASSERT_EQ(result.plugins.size(), 1u);
  expect_kept("load");
  start(result, options, &host.table, ignore_log);
  ASSERT_EQ(result.plugins.size(), 1u);
  expect_kept("start");
  stop(result);
  expect_kept("stop");
  // The plugin does what it is here for: unguarded, it changes the environment.
  result.plugins[0].descriptor.deinit();
  EXPECT_NE(std::fegetround(), FE_TONEAREST);
  std::fesetround(FE_TONEAREST);
#if defined(__x86_64__)
  EXPECT_NE(control_word(), before);
  _mm_setcsr(before);
#endif
}

TEST(Start, OptionsAndHostReachInit) {
  Host host;
  Options options = options_for({built("good_c"), built("good_cpp")});
  options.plugin_options["zoo_c"] = {{"threads", "2"}, {"mode", "fast"}};
  options.plugin_options["other"] = {{"x", "y"}};
  Result result = load(options, ignore_log);
  start(result, options, &host.table, ignore_log);
  EXPECT_EQ(host.said, std::vector<std::string>{"init 2"});
  ASSERT_EQ(result.plugins.size(), 2u);
  EXPECT_TRUE(result.plugins[0].started);
  EXPECT_TRUE(result.plugins[1].started) << "a plugin without init is started too";
  start(result, options, &host.table, ignore_log);
  EXPECT_EQ(host.said.size(), 1u) << "init is called once";
  stop(result);
  EXPECT_FALSE(result.plugins[0].started);
}

TEST(Start, FailureRemovesThePluginAlone) {
  struct {
    const char* name;
    const char* detail;
  } const cases[] = {{"init_fails", "failed with code 14: zoo.init: no driver found"},
                     {"init_throws", "its init function threw an exception"}};
  for (const auto& test : cases) {
    SCOPED_TRACE(test.name);
    Host host;
    const Options options = options_for({built(test.name), built("good_cpp")});
    Result result = load(options, ignore_log);
    ASSERT_EQ(result.plugins.size(), 2u);
    start(result, options, &host.table, ignore_log);
    expect_outcome(result, built(test.name), Outcome::failed_to_start, test.detail);
    expect_outcome(result, built("good_cpp"), Outcome::loaded, "");
    expect_good_neighbour(result);
    EXPECT_EQ(result.plugins.size(), 1u);
    stop(result);
  }
}

TEST(Paths, ThirdPartyUnlessInstalled) {
  const fs::path file = built("good_c"), folder = file.parent_path();
  Options options;
  options.search = {{folder, "installed"}};
  EXPECT_FALSE(load(options, ignore_log).plugins.at(0).third_party);
  options.search = {{folder, "MOERT_PLUGIN_PATH"}};
  EXPECT_TRUE(load(options, ignore_log).plugins.at(0).third_party);
  // Named by a flag, but it lies in the installed folder.
  options.search = {{file, "--plugin-path"}, {folder, "installed"}};
  EXPECT_FALSE(load(options, ignore_log).plugins.at(0).third_party);
}

// Features that the registry looks at: which rule, and that nothing of the plugin stays.
TEST(Registry, RulesOfTables) {
  struct {
    const char* name;
    const char* problem;
  } const cases[] = {{"null_entry", "required function 'forward' is NULL"},
                     {"short_table", "struct_size 16, revision 1 has 64"},
                     {"foreign_name", "a name is 'zoo_c.'"}};
  for (const auto& test : cases) {
    SCOPED_TRACE(test.name);
    const Result result = load_all({built(test.name)});
    ASSERT_EQ(result.plugins.size(), 1u);
    registry::Registry registry;
    try {
      registry.add(result.plugins[0].descriptor, built(test.name), true);
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      EXPECT_EQ(e.fault(), Fault::plugin);
      EXPECT_NE(e.problem().find(test.problem), std::string::npos) << e.what();
    }
    EXPECT_TRUE(registry.candidates(MOERT_KIND_PLUGGABLE_LAYER).empty());
  }
}

TEST(Registry, FuturePluginGivesWhatIsKnown) {
  const Result result = load_all({built("future")});
  ASSERT_EQ(result.plugins.size(), 1u);
  EXPECT_EQ(result.plugins[0].descriptor.struct_size, sizeof(moert_plugin_t));
  registry::Registry registry;
  registry.add(result.plugins[0].descriptor, "future", true);
  const registry::Candidate* layer = registry.find(MOERT_KIND_PLUGGABLE_LAYER, "future.layer");
  ASSERT_NE(layer, nullptr);
  EXPECT_EQ(layer->rank, int32_t{MOERT_RANK_GOOD});
  EXPECT_EQ(registry::table_of<moert_pluggable_layer_t>(*layer)->struct_size,
            sizeof(moert_pluggable_layer_t));
  ASSERT_EQ(registry.rejections().size(), 2u);
  EXPECT_EQ(registry.rejections()[0].kind, "moert.teleport/1");
  EXPECT_EQ(registry.rejections()[1].kind, "moert.router/2");
}

// What C++ code throws stays behind the border, as a code and a text.
struct Thrown {
  const char* what;
  moert_code_t code;
  const char* message;
  int64_t native_code;
};
void PrintTo(const Thrown& test, std::ostream* out) { *out << test.what; }
class ThrowingForward : public testing::TestWithParam<Thrown> {};

TEST_P(ThrowingForward, BecomesACode) {
  const Thrown& test = GetParam();
  const Result result = load_all({built("good_cpp")});
  ASSERT_EQ(result.plugins.size(), 1u);
  registry::Registry registry;
  registry.add(result.plugins[0].descriptor, "good_cpp", true);
  const auto* table = registry::table_of<moert_routed_experts_t>(
      *registry.find(MOERT_KIND_ROUTED_EXPERTS, "zoo_cpp.thrower"));
  Host host;
  moert_moe_problem_t problem{};
  problem.struct_size = sizeof problem;
  problem.top_k = 2;
  moert_error_t error{};
  error.struct_size = sizeof error;
  const moert_kv_t option = {"throw", test.what};
  void* self = nullptr;
  ASSERT_EQ(table->create(&host.table, &problem, &option, 1, &self, &error), MOERT_OK)
      << error.message;
  moert_experts_args_t args{};
  args.struct_size = sizeof args;
  EXPECT_EQ(table->forward(self, &args, &error), test.code);
  if (test.code != MOERT_OK) {
    EXPECT_EQ(error.code, test.code);
    EXPECT_STREQ(error.where, "zoo_cpp.thrower");
  }
  EXPECT_EQ(std::string(error.message).substr(0, 40), std::string(test.message).substr(0, 40));
  EXPECT_EQ(error.native_code, test.native_code);
  EXPECT_LT(::strnlen(error.message, sizeof error.message), sizeof error.message);
  table->destroy(self);
}

INSTANTIATE_TEST_SUITE_P(
    Exceptions, ThrowingForward,
    testing::Values(
        Thrown{"nothing", MOERT_OK, "", 0},
        Thrown{"plugin_error", MOERT_DATA_LOSS, "thrown on purpose", 42},
        Thrown{"standard", MOERT_INTERNAL, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0},
        Thrown{"memory", MOERT_RESOURCE_EXHAUSTED, "out of host memory", 0},
        Thrown{"number", MOERT_INTERNAL, "an exception that is not a std::exception", 0}),
    [](const auto& test_info) { return std::string(test_info.param.what); });

TEST(Throwing, SupportsAndCreateToo) {
  const Result result = load_all({built("good_cpp")});
  registry::Registry registry;
  registry.add(result.plugins.at(0).descriptor, "good_cpp", true);
  const auto* table = registry::table_of<moert_routed_experts_t>(
      *registry.find(MOERT_KIND_ROUTED_EXPERTS, "zoo_cpp.thrower"));
  Host host;
  moert_moe_problem_t problem{};
  problem.struct_size = sizeof problem;
  moert_support_t support{};
  support.struct_size = sizeof support;
  void* self = nullptr;
  EXPECT_EQ(table->create(&host.table, &problem, nullptr, 0, &self, nullptr),
            MOERT_INVALID_ARGUMENT);
  EXPECT_EQ(self, nullptr);
  problem.top_k = 9;
  EXPECT_EQ(table->supports(&host.table, &problem, &support, nullptr), MOERT_INTERNAL);
}

}  // namespace
}  // namespace moert::loader
