// The adapter between C++ classes and tables: exceptions, records of other sizes, flags, options.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <moert/sdk/plugin.hpp>
#include <thread>

namespace moert {
namespace {

struct Record {
  uint32_t struct_size;
  uint32_t flags;
  int64_t first, second;
};

template <class Body>
moert_code_t code_of(Body&& body) {
  try {
    body();
  } catch (const PluginError& e) {
    EXPECT_STRNE(e.what(), "");
    return e.code();
  }
  return MOERT_OK;
}

TEST(Intake, WhatAShorterRecordLacksReadsAsZero) {
  Record record = {offsetof(Record, second), 5, 7, 99};
  const Record full = intake(&record);
  EXPECT_EQ(full.struct_size, sizeof full);
  EXPECT_EQ(full.flags, 5u);
  EXPECT_EQ(full.first, 7);
  EXPECT_EQ(full.second, 0) << "read beyond struct_size";
  record.struct_size = offsetof(Record, first) + 4;  // in the middle of a member
  EXPECT_EQ(intake(&record).second, 0);
}

TEST(Intake, WhatALongerRecordHasIsLeftOut) {
  struct {
    Record record;
    unsigned char tail[32];
  } grown = {{sizeof grown, 5, 7, 9}, {}};
  const Record full = intake(&grown.record);
  EXPECT_EQ(full.struct_size, sizeof full);
  EXPECT_EQ(full.second, 9);
}

TEST(Intake, MissingAndUnsetRecordsAreErrors) {
  EXPECT_EQ(code_of([] { intake<Record>(nullptr); }), MOERT_INVALID_ARGUMENT);
  for (const uint32_t size : {0u, 4u, 7u}) {
    const Record record = {size, 0, 0, 0};
    EXPECT_EQ(code_of([&] { intake(&record); }), MOERT_INVALID_ARGUMENT) << size;
  }
}

TEST(MustUnderstand, NamesTheBitsThatAreNotKnown) {
  EXPECT_NO_THROW(must_understand(0, 0, "x"));
  EXPECT_NO_THROW(must_understand(5, 7, "x"));
  try {
    must_understand(13, 5, "some record");
    ADD_FAILURE() << "an unknown bit passed";
  } catch (const PluginError& e) {
    EXPECT_EQ(e.code(), MOERT_UNIMPLEMENTED);
    EXPECT_STREQ(e.what(), "some record: flag bits 8 are not known here");
  }
}

TEST(Options, ValuesFallbacksAndUnknownKeys) {
  const moert_kv_t entries[] = {{"threads", "4"}, {"mode", ""}};
  const Options options(entries, 2);
  EXPECT_EQ(options.get("threads"), "4");
  EXPECT_EQ(options.get("mode", "fast"), "");
  EXPECT_EQ(options.get("other", "fast"), "fast");
  EXPECT_EQ(code_of([&] { options.allow({"threads", "mode"}); }), MOERT_OK);
  EXPECT_EQ(code_of([&] { options.allow({"threads"}); }), MOERT_INVALID_ARGUMENT);
  EXPECT_EQ(code_of([] { Options(nullptr, 0).allow({}); }), MOERT_OK);
}

// What is thrown, and the code that comes out.
struct Throw {
  const char* name;
  std::function<void()> body;
  moert_code_t code;
  const char* message;
  int64_t native = 0;
};

std::vector<Throw> throws() {
  return {
      {"plugin_error", [] { throw PluginError(MOERT_DATA_LOSS, "torn", 17); }, MOERT_DATA_LOSS,
       "torn", 17},
      {"bad_alloc", [] { throw std::bad_alloc(); }, MOERT_RESOURCE_EXHAUSTED, "out of host memory"},
      {"runtime_error", [] { throw std::runtime_error("broken"); }, MOERT_INTERNAL, "broken"},
      {"number", [] { throw 42; }, MOERT_INTERNAL, "an exception that is not a std::exception"}};
}

TEST(Guarded, EveryExceptionBecomesACode) {
  for (const Throw& t : throws()) {
    moert_error_t error{};
    error.struct_size = sizeof error;
    EXPECT_EQ(detail::guarded(&error, "here", t.body), t.code) << t.name;
    EXPECT_EQ(error.code, t.code) << t.name;
    EXPECT_STREQ(error.message, t.message);
    EXPECT_STREQ(error.where, "here");
    EXPECT_EQ(error.native_code, t.native) << t.name;
    EXPECT_EQ(detail::guarded(nullptr, "here", t.body), t.code) << "without a record: " << t.name;
  }
  EXPECT_EQ(detail::guarded(nullptr, "here", [] {}), MOERT_OK);
}

TEST(Guarded, TextsAreCutAndAlwaysEnd) {
  struct {
    moert_error_t error;
    unsigned char guard[16];
  } both;
  std::memset(&both, 0x5a, sizeof both);
  both.error.struct_size = sizeof both.error;
  const std::string text(5000, 'x');
  detail::guarded(&both.error, text.c_str(), [&] { throw PluginError(MOERT_INTERNAL, text); });
  EXPECT_EQ(std::strlen(both.error.message), sizeof both.error.message - 1);
  EXPECT_EQ(std::strlen(both.error.where), sizeof both.error.where - 1);
  for (const unsigned char b : both.guard) EXPECT_EQ(b, 0x5a);
}

TEST(Guarded, ARecordThatIsTooSmallIsLeftAlone) {
  moert_error_t error{};
  error.struct_size = sizeof error - 1;
  EXPECT_EQ(detail::guarded(&error, "here", [] { throw 1; }), MOERT_INTERNAL);
  EXPECT_EQ(error.message[0], '\0');
  EXPECT_EQ(error.code, MOERT_OK);
}

// A layer whose every method throws what the test asks for.
std::function<void()>& action() {
  static std::function<void()> body = [] {};
  return body;
}
int& alive() {
  static int count = 0;
  return count;
}

class Thrower final : public RoutedExperts {
 public:
  static constexpr FeatureInfo kFeature = {"test.thrower"};
  static Support supports(const Host&, const moert_moe_problem_t& p) {
    action()();
    if (p.hidden_size == 7) return Support::no("seven");
    Support yes = Support::yes(MOERT_SUPPORT_DETERMINISTIC, 5);
    yes.layout = "test:tiles";
    yes.persistent_bytes = 11;
    return yes;
  }
  Thrower(const Host&, const moert_moe_problem_t&, const Options&) {
    action()();
    ++alive();
  }
  ~Thrower() override { --alive(); }
  void load(const moert_piece_t&) override { action()(); }
  void finish() override { action()(); }
  uint64_t workspace(int64_t tokens) override {
    action()();
    return static_cast<uint64_t>(tokens) * 3;
  }
  void forward(const moert_experts_args_t&) override { action()(); }
};

void* alloc(void*, uint64_t bytes, uint64_t) { return bytes > 4096 ? nullptr : std::malloc(bytes); }
void release(void*, void* p) { std::free(p); }
int32_t two(void*) { return 2; }
void parallel(void*, int64_t n, int64_t grain, void (*fn)(void*, int64_t, int64_t, int32_t),
              void* arg) {
  const int64_t half = n / 2 / grain * grain;
  std::thread other([&] { fn(arg, half, n, 1); });
  fn(arg, 0, half, 0);
  other.join();
}
const moert_host_t kHost = {
    sizeof(moert_host_t), 0, nullptr, nullptr, &alloc, &release, &parallel, &two, nullptr};

class Adapter : public ::testing::Test {
 protected:
  void SetUp() override {
    action() = [] {};
    problem.struct_size = sizeof problem;
    ASSERT_EQ(table.create(&kHost, &problem, nullptr, 0, &self, nullptr), MOERT_OK);
  }
  void TearDown() override {
    action() = [] {};
    table.destroy(self);
    EXPECT_EQ(alive(), 0);
  }
  const moert_routed_experts_t& table = RoutedExperts::Kind::table<Thrower>;
  moert_moe_problem_t problem{};
  void* self = nullptr;
};

TEST_F(Adapter, NothingThrownGetsOutOfAnyFunction) {
  moert_support_t support{};
  support.struct_size = sizeof support;
  moert_piece_t piece{};
  piece.struct_size = sizeof piece;
  moert_experts_args_t args{};
  args.struct_size = sizeof args;
  uint64_t bytes = 0;
  void* other = nullptr;
  const std::function<moert_code_t(moert_error_t*)> calls[] = {
      [&](auto* e) { return table.supports(&kHost, &problem, &support, e); },
      [&](auto* e) { return table.create(&kHost, &problem, nullptr, 0, &other, e); },
      [&](auto* e) { return table.load(self, &piece, e); },
      [&](auto* e) { return table.finish(self, e); },
      [&](auto* e) { return table.workspace(self, 4, &bytes, e); },
      [&](auto* e) { return table.forward(self, &args, e); }};
  for (const Throw& t : throws()) {
    action() = t.body;
    for (const auto& call : calls) {
      moert_error_t error{};
      error.struct_size = sizeof error;
      EXPECT_EQ(call(&error), t.code) << t.name;
      EXPECT_STREQ(error.message, t.message);
      EXPECT_STREQ(error.where, "test.thrower");
    }
  }
  EXPECT_EQ(other, nullptr) << "a failed create left an object";
  action() = [] {};
  for (const auto& call : calls) EXPECT_EQ(call(nullptr), MOERT_OK);
  EXPECT_EQ(bytes, 12u);
  table.destroy(other);
}

TEST_F(Adapter, SupportsFillsTheAnswer) {
  moert_support_t support{};
  support.struct_size = sizeof support;
  EXPECT_EQ(table.supports(&kHost, &problem, &support, nullptr), MOERT_OK);
  EXPECT_EQ(support.verdict, 1);
  EXPECT_EQ(support.score, 5);
  EXPECT_EQ(support.flags, static_cast<uint32_t>(MOERT_SUPPORT_DETERMINISTIC));
  EXPECT_EQ(support.persistent_bytes, 11u);
  EXPECT_STREQ(support.layout, "test:tiles");
  problem.hidden_size = 7;
  EXPECT_EQ(table.supports(&kHost, &problem, &support, nullptr), MOERT_OK);
  EXPECT_EQ(support.verdict, 0);
  EXPECT_STREQ(support.reason, "seven");
  EXPECT_STREQ(support.layout, "") << "the answer before is still there";
  support.struct_size = sizeof support - 1;
  EXPECT_EQ(table.supports(&kHost, &problem, &support, nullptr), MOERT_INVALID_ARGUMENT);
  EXPECT_EQ(table.supports(&kHost, &problem, nullptr, nullptr), MOERT_INVALID_ARGUMENT);
}

TEST_F(Adapter, MissingObjectsHostsAndRecordsAreErrors) {
  moert_piece_t piece{};
  piece.struct_size = sizeof piece;
  void* other = nullptr;
  EXPECT_EQ(table.load(nullptr, &piece, nullptr), MOERT_INVALID_ARGUMENT);
  EXPECT_EQ(table.load(self, nullptr, nullptr), MOERT_INVALID_ARGUMENT);
  EXPECT_EQ(table.create(nullptr, &problem, nullptr, 0, &other, nullptr), MOERT_INVALID_ARGUMENT);
  EXPECT_EQ(table.create(&kHost, nullptr, nullptr, 0, &other, nullptr), MOERT_INVALID_ARGUMENT);
  EXPECT_EQ(other, nullptr);
}

TEST_F(Adapter, WhatAClassDoesNotOverrideIsUnimplemented) {
  uint64_t bytes = 0;
  EXPECT_EQ(table.bundle_bytes(self, &bytes, nullptr), MOERT_UNIMPLEMENTED);
  EXPECT_EQ(table.read_expert(self, 0, &bytes, 8, nullptr, nullptr), MOERT_UNIMPLEMENTED);
  EXPECT_EQ(table.write_expert(self, 0, &bytes, 8, nullptr, nullptr), MOERT_UNIMPLEMENTED);
}

TEST(HostServices, MemoryComesBackAndItsLackIsNamed) {
  const Host host(&kHost);
  const Host::Array<float> some = host.alloc<float>(16, "a test");
  EXPECT_NE(some.get(), nullptr);
  try {
    host.alloc<double>(4096, "too much");
    ADD_FAILURE() << "32 KiB from a host that has 4";
  } catch (const PluginError& e) {
    EXPECT_EQ(e.code(), MOERT_RESOURCE_EXHAUSTED);
    EXPECT_STREQ(e.what(), "no memory: 32768 bytes for too much");
  }
  EXPECT_EQ(code_of([&] { host.alloc<double>(UINT64_MAX / 4, "an overflow"); }),
            MOERT_RESOURCE_EXHAUSTED);
  EXPECT_EQ(code_of([] { Host(nullptr); }), MOERT_INVALID_ARGUMENT);
}

TEST(HostServices, ParallelForCoversTheRangeAndCarriesTheFirstError) {
  const Host host(&kHost);
  std::atomic<int64_t> sum{0};
  host.parallel_for(101, 4, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t i = begin; i < end; ++i) sum += i;
  });
  EXPECT_EQ(sum, 5050);
  try {
    host.parallel_for(101, 4, [&](int64_t, int64_t, int32_t) {
      throw PluginError(MOERT_OUT_OF_RANGE, "both threads throw");
    });
    ADD_FAILURE() << "the exception was lost";
  } catch (const PluginError& e) {
    EXPECT_EQ(e.code(), MOERT_OUT_OF_RANGE);
    EXPECT_STREQ(e.what(), "both threads throw");
  }
}

}  // namespace
}  // namespace moert

MOERT_PLUGIN("org.moert.test", "test", "MoERT", "1.2.3", moert::Thrower)

namespace moert {
namespace {

TEST(Plugin, TheDescriptorSaysWhatTheMacroWasGiven) {
  const moert_host_info_t host = {sizeof host, MOERT_ABI_MAJOR, MOERT_ABI_MINOR + 9, 0, "test"};
  const moert_plugin_t* plugin = moert_plugin_query_v1(&host);
  ASSERT_NE(plugin, nullptr);
  EXPECT_EQ(plugin, moert_plugin_query_v1(&host)) << "the query is pure";
  EXPECT_EQ(plugin->struct_size, sizeof *plugin);
  EXPECT_STREQ(plugin->id, "org.moert.test");
  EXPECT_STREQ(plugin->version, "1.2.3");
  ASSERT_EQ(plugin->n_features, 1u);
  EXPECT_STREQ(plugin->features[0]->kind, MOERT_KIND_ROUTED_EXPERTS);
  EXPECT_STREQ(plugin->features[0]->name, "test.thrower");
  EXPECT_EQ(plugin->features[0]->table, &RoutedExperts::Kind::table<Thrower>);
  EXPECT_EQ(moert_plugin_query_v1(nullptr), nullptr);
  const moert_host_info_t newer = {sizeof newer, MOERT_ABI_MAJOR + 1, 0, 0, "test"};
  EXPECT_EQ(moert_plugin_query_v1(&newer), nullptr);
}

TEST(Plugin, TheNoteSaysTheSame) {
  EXPECT_STREQ(moert_plugin_note.owner, MOERT_NOTE_OWNER);
  EXPECT_EQ(moert_plugin_note.name_size, sizeof(MOERT_NOTE_OWNER));
  EXPECT_EQ(moert_plugin_note.desc_size, sizeof(moert_note_desc_t));
  EXPECT_EQ(moert_plugin_note.desc.abi_major, MOERT_ABI_MAJOR);
  EXPECT_STREQ(moert_plugin_note.desc.id, "org.moert.test");
  EXPECT_STREQ(moert_plugin_note.desc.version, "1.2.3");
}

}  // namespace
}  // namespace moert
