// The note against the host, names and versions, the allow list, the search path.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>

#include <moert/error.hpp>

#include "elf_image.hpp"
#include "loader/checks.hpp"
#include "loader/loader.hpp"
#include "loader/search.hpp"

namespace moert::loader {
namespace {

namespace fs = std::filesystem;

Note good() { return {test::good_note(), sizeof(moert_note_desc_t)}; }

struct Case {
  const char* name;
  std::function<void(Note&)> change;
  const char* incompatible;  // substring, "" for none
  const char* malformed;
};
void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }
class Notes : public testing::TestWithParam<Case> {};

void expect(const std::string& text, const std::string& want) {
  EXPECT_EQ(text.empty(), want.empty()) << text;
  EXPECT_NE(text.find(want), std::string::npos) << text;
}

TEST_P(Notes, AgainstThisHost) {
  Note note = good();
  GetParam().change(note);
  expect(incompatible_note(note, MOERT_ISA_AVX2_FMA), GetParam().incompatible);
  expect(malformed_note(note), GetParam().malformed);
}

INSTANTIATE_TEST_SUITE_P(
    All, Notes,
    testing::Values(
        Case{"Good", [](Note&) {}, "", ""},
        Case{"NewerMinor", [](Note& n) { n.desc.abi_minor = 99; }, "", ""},
        Case{"Larger", [](Note& n) { n.size = n.desc.desc_size = 500; }, "", ""},
        Case{"Major0", [](Note& n) { n.desc.abi_major = 0; }, "built for ABI 0", ""},
        Case{"Major2", [](Note& n) { n.desc.abi_major = 2; }, "built for ABI 2", ""},
        Case{"HostMinor", [](Note& n) { n.desc.min_host_minor = MOERT_ABI_MINOR + 1; }, "or later",
             ""},
        Case{"HostMinorSame", [](Note& n) { n.desc.min_host_minor = MOERT_ABI_MINOR; }, "", ""},
        Case{"UnknownSanitizer", [](Note& n) { n.desc.sanitizer = 77; }, "unknown sanitizer", ""},
        Case{"HasAvx2", [](Note& n) { n.desc.isa = MOERT_ISA_AVX2_FMA; }, "", ""},
        Case{"LacksAvx512", [](Note& n) { n.desc.isa = MOERT_ISA_AVX2_FMA | MOERT_ISA_AVX512; },
             "AVX-512", ""},
        Case{"UnknownIsa", [](Note& n) { n.desc.isa = 1u << 20; }, "unknown bits 1048576", ""},
        Case{"Short", [](Note& n) { n.size = 40; }, "its note has 40 bytes, revision 1 has 112",
             ""},
        Case{"SaysShort", [](Note& n) { n.desc.desc_size = 0; }, "its note has 0 bytes", ""},
        Case{"SaysLonger", [](Note& n) { n.desc.desc_size = 200; }, "", "shorter than it says"},
        Case{"EmptyId", [](Note& n) { n.desc.id[0] = '\0'; }, "", "no well-formed id"},
        Case{"EndlessId", [](Note& n) { std::memset(n.desc.id, 'a', sizeof n.desc.id); }, "",
             "no well-formed id"},
        Case{"SlashInId", [](Note& n) { n.desc.id[3] = '/'; }, "", "no well-formed id"},
        Case{"EndlessVersion",
             [](Note& n) { std::memset(n.desc.version, '1', sizeof n.desc.version); }, "",
             "no version"},
        Case{"TwoNumbers", [](Note& n) { std::strcpy(n.desc.version, "1.2"); }, "", "no version"}),
    [](const auto& test_info) { return test_info.param.name; });

TEST(Names, Versions) {
  for (const char* text :
       {"0.0.0", "1.2.3", "10.20.30", "1.0.0-rc.1", "1.0.0+build.5", "1.0.0-a+b"})
    EXPECT_TRUE(is_version(text)) << text;
  for (const char* text : {"", "1", "1.2", "1.2.3.4", "1..2", ".1.2", "1.2.", "v1.2.3", "1.2.x",
                           "1.2.3-", "1.2.3 ", "1.2.3-a b", "-1.2.3", "1,2,3"})
    EXPECT_FALSE(is_version(text)) << text;
}

TEST(Names, IdsShortNamesFiles) {
  EXPECT_TRUE(is_id("org.example.Fast-moe_2"));
  EXPECT_FALSE(is_id("org example"));
  EXPECT_FALSE(is_id(std::string(64, 'a')));
  EXPECT_TRUE(is_short_name("fast_2"));
  for (const char* text : {"", "Fast", "a-b", "a.b", "ä"})
    EXPECT_FALSE(is_short_name(text)) << text;
  EXPECT_EQ(name_of_file("/x/libmoert_fast.so"), "fast");
  for (const char* text :
       {"/x/libmoert_.so", "/x/libmoert_a.so.1", "/x/moert_a.so", "/x/libmoert_a", "/x/.so"})
    EXPECT_EQ(name_of_file(text), "") << text;
}

TEST(Names, AllowList) {
  EXPECT_TRUE(allowed({}, "org.a", "a"));
  EXPECT_TRUE(allowed({"b", "a"}, "org.a", "a"));
  EXPECT_TRUE(allowed({"org.a"}, "org.a", ""));
  EXPECT_FALSE(allowed({"b"}, "org.a", "a"));
  EXPECT_FALSE(allowed({""}, "org.a", ""));
}

TEST(Names, EveryOutcomeHasItsOwn) {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(Outcome::failed_to_start); ++i)
    names.emplace_back(outcome_name(static_cast<Outcome>(i)));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
}

TEST(Isa, KnownBitsOnly) {
  const uint32_t known = MOERT_ISA_AVX2_FMA | MOERT_ISA_AVX512;
  EXPECT_EQ(available_isa() & ~known, 0u);
  // AVX-512 without AVX2 does not exist; the build's own needs are met, or this would not run.
  const bool avx512 = (available_isa() & MOERT_ISA_AVX512) != 0;
  EXPECT_TRUE(!avx512 || (available_isa() & MOERT_ISA_AVX2_FMA) != 0);
  EXPECT_EQ(MOERT_BUILD_ISA & ~available_isa(), 0u);
}

// Puts an environment variable back at the end.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = ::getenv(name)) old_ = old, had_ = true;
    value != nullptr ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  ~Variable() { had_ ? ::setenv(name_, old_.c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

std::vector<std::string> shown(const std::vector<SearchEntry>& entries) {
  std::vector<std::string> text;
  for (const SearchEntry& entry : entries) text.push_back(entry.origin + " " + entry.path.string());
  return text;
}

TEST(SearchPath, Order) {
  const Variable path("MOERT_PLUGIN_PATH", "/nowhere/b:/nowhere/a"),
      data("XDG_DATA_HOME", "/nowhere/data");
  const std::vector<std::string> got = shown(search_path({"/usr", "/"}));
  ASSERT_GE(got.size(), 6u);
  EXPECT_EQ(std::vector<std::string>(got.begin(), got.begin() + 5),
            (std::vector<std::string>{
                "--plugin-path /usr", "--plugin-path /", "MOERT_PLUGIN_PATH /nowhere/b",
                "MOERT_PLUGIN_PATH /nowhere/a", "user /nowhere/data/moert/plugins-1"}));
  const fs::path program = fs::canonical("/proc/self/exe");
  const std::vector<fs::path> installed = installed_folders(program);
  ASSERT_EQ(got.size(), 5 + installed.size());
  for (size_t i = 0; i < installed.size(); ++i)
    EXPECT_EQ(got[5 + i], "installed " + installed[i].string());
}

TEST(SearchPath, UserFolder) {
  const Variable path("MOERT_PLUGIN_PATH", nullptr), home("HOME", "/nowhere/home");
  struct {
    const char* data;
    const char* want;
  } const cases[] = {{nullptr, "user /nowhere/home/.local/share/moert/plugins-1"},
                     {"", "user /nowhere/home/.local/share/moert/plugins-1"},
                     {"relative", "user /nowhere/home/.local/share/moert/plugins-1"},
                     {"/data", "user /data/moert/plugins-1"}};
  for (const auto& test : cases) {
    const Variable data("XDG_DATA_HOME", test.data);
    EXPECT_EQ(shown(search_path({})).at(0), test.want);
  }
}

TEST(SearchPath, EachFolderOnce) {
  const Variable path("MOERT_PLUGIN_PATH", "/usr:/usr:/usr/lib/..");
  const auto entries = search_path({"/usr"});
  EXPECT_EQ(
      std::count_if(entries.begin(), entries.end(), [](const auto& e) { return e.path == "/usr"; }),
      1);
}

TEST(SearchPath, FlagMustExist) {
  try {
    search_path({"/nowhere/at/all"});
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::usage);
    EXPECT_NE(e.problem().find("/nowhere/at/all"), std::string::npos);
    EXPECT_EQ(e.place(), "--plugin-path");
  }
}

TEST(SearchPath, InstalledFolders) {
  EXPECT_EQ(installed_folders("/opt/m/lib/libmoert.so.1"),
            std::vector<fs::path>{"/opt/m/lib/moert/plugins-1"});
  const std::vector<fs::path> of_program = installed_folders("/opt/m/bin/moert");
  EXPECT_EQ(of_program.back(), "/opt/m/lib/moert/plugins-1");
  for (const fs::path& folder : of_program)
    EXPECT_TRUE(folder.string().starts_with("/opt/m/lib")) << folder;
  EXPECT_TRUE(installed_folders("").empty());
  EXPECT_TRUE(installed_folders("bin/moert").empty());
}

}  // namespace
}  // namespace moert::loader
