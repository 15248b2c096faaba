// Every plugin that was built to break a rule, and what must become of it.
// SPDX-License-Identifier: Apache-2.0
#include "zoo.hpp"

namespace moert::loader {
namespace {

using namespace test;

struct Case {
  const char* name;  // of its folder
  Outcome outcome;
  const char* detail;
  bool mapped;  // judged only after it was opened
};
void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }

class Zoo : public testing::TestWithParam<Case> {};

TEST_P(Zoo, IsReportedAndHarmsNobody) {
  const Case& test = GetParam();
  const fs::path file = built(test.name);
  const Result result = load_all({file.parent_path(), built("good_cpp").parent_path()});
  expect_outcome(result, file, test.outcome, test.detail);
  expect_good_neighbour(result);
  EXPECT_EQ(result.plugins.size(), test.outcome == Outcome::loaded ? 2u : 1u);
  EXPECT_EQ(is_mapped(file), test.mapped);
}

INSTANTIATE_TEST_SUITE_P(Good, Zoo,
                         testing::Values(Case{"good_c", Outcome::loaded, "", true},
                                         Case{"future", Outcome::loaded, "", true},
                                         Case{"fast_math", Outcome::loaded, "", true},
                                         // What the registry, not the loader, looks at.
                                         Case{"null_entry", Outcome::loaded, "", true},
                                         Case{"short_table", Outcome::loaded, "", true},
                                         Case{"foreign_name", Outcome::loaded, "", true},
                                         // What is seen only at the start.
                                         Case{"init_fails", Outcome::loaded, "", true},
                                         Case{"init_throws", Outcome::loaded, "", true}),
                         [](const auto& test_info) { return test_info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    BeforeOpening, Zoo,
    testing::Values(
        Case{"note_major", Outcome::incompatible, "built for ABI 2, this host has ABI 1", false},
        Case{"note_host_minor", Outcome::incompatible,
             "needs a host with ABI 1.7 or later, this one has 1.0", false},
        Case{"note_bad_id", Outcome::bad_descriptor, "no well-formed id", false},
        Case{"note_bad_version", Outcome::bad_descriptor, "no version of the form 1.2.3", false},
        Case{"no_note", Outcome::no_note, "without the MoERT note", false}),
    [](const auto& test_info) { return test_info.param.name; });

INSTANTIATE_TEST_SUITE_P(Opening, Zoo,
                         testing::Values(Case{"missing_dependency", Outcome::failed_to_open,
                                              "libzoo_gone.so is missing, needed by ", false},
                                         Case{"undefined_symbol", Outcome::failed_to_open,
                                              "undefined symbol: zoo_defined_nowhere", false}),
                         [](const auto& test_info) { return test_info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Descriptor, Zoo,
    testing::Values(
        Case{"no_entry", Outcome::bad_descriptor, "no function moert_plugin_query_v1", true},
        Case{"query_null", Outcome::bad_descriptor, "returned NULL", true},
        Case{"query_throws", Outcome::bad_descriptor, "moert_plugin_query_v1 threw", true},
        Case{"short_descriptor", Outcome::bad_descriptor, "struct_size 40, revision 1 has", true},
        Case{"huge_descriptor", Outcome::bad_descriptor, "struct_size 1048576", true},
        Case{"descriptor_major", Outcome::bad_descriptor, "descriptor is of ABI 2", true},
        Case{"descriptor_host_minor", Outcome::bad_descriptor,
             "ABI minor 7, its note did not say so", true},
        Case{"id_mismatch", Outcome::bad_descriptor, "the id 'org.zoo.other', its note 'org.zoo.c'",
             true},
        Case{"version_mismatch", Outcome::bad_descriptor, "the version '2.0.0', its note '1.0.0'",
             true},
        Case{"null_id", Outcome::bad_descriptor, "its id is NULL", true},
        Case{"bad_name", Outcome::bad_descriptor, "name 'Zoo-C' is not made of", true},
        Case{"control_vendor", Outcome::bad_descriptor, "vendor has control characters", true},
        Case{"no_features", Outcome::bad_descriptor, "lists 0 features", true},
        Case{"null_features", Outcome::bad_descriptor, "list of features is NULL", true},
        Case{"null_feature", Outcome::bad_descriptor, "feature number 0 is NULL", true}),
    [](const auto& test_info) { return test_info.param.name; });

TEST(Missing, NamesTheFileAndTheFolders) {
  const fs::path file = built("missing_dependency");
  const Result result = load_all({file});
  const FileReport* report = report_of(result, file);
  ASSERT_NE(report, nullptr);
  EXPECT_NE(report->detail.find("needed by " + file.string() + " (looked in: "), std::string::npos);
  EXPECT_NE(report->detail.find("/lib"), std::string::npos);
  EXPECT_NE(report->detail.find("libzoo_gone.so: cannot open shared object file"),
            std::string::npos)
      << "the linker's own words are missing: " << report->detail;
  EXPECT_EQ(report->detail.find("libc.so"), std::string::npos)
      << "named what is there: " << report->detail;
}

TEST(Duplicates, FirstIdInTheSearchWins) {
  const fs::path first = built("good_c"), second = built("same_id");
  for (const auto& [winner, loser] : {std::pair{first, second}, std::pair{second, first}}) {
    const Result result = load_all({winner.parent_path(), loser.parent_path()});
    expect_outcome(result, winner, Outcome::loaded, "");
    expect_outcome(result, loser, Outcome::shadowed,
                   "'org.zoo.c' was found earlier, at " + winner.string());
    ASSERT_EQ(result.plugins.size(), 1u);
    EXPECT_EQ(result.plugins[0].path, winner);
  }
}

TEST(Duplicates, ShortNamesAreOnlyOnce) {
  const Result result = load_all({built("good_c"), built("same_name")});
  expect_outcome(result, built("same_name"), Outcome::shadowed,
                 "the short name 'zoo_c' belongs to 'org.zoo.c'");
}

TEST(Duplicates, FileThatDidNotOpenDoesNotShadow) {
  const Result result = load_all({built("missing_dependency"), built("good_c")});
  expect_outcome(result, built("good_c"), Outcome::loaded, "");
}

TEST(Duplicates, OneFileUnderTwoNames) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "libmoert_a.so", link = folder.path() / "libmoert_b.so";
  fs::copy_file(built("good_c"), file);
  fs::create_symlink(file, link);
  const Result result = load_all({folder.path(), folder.path()});
  expect_outcome(result, file, Outcome::loaded, "");
  expect_outcome(result, link, Outcome::shadowed, "the same file as " + file.string());
  EXPECT_EQ(result.plugins.size(), 1u);
}

TEST(Duplicates, FolderOrderDoesNotMatter) {
  // Names decide inside a folder, whatever order the file system lists them in.
  const TemporaryFolder folder;
  for (const char* name : {"c", "a", "b", "_", "0"})
    fs::copy_file(built("good_c"), folder.path() / (std::string("libmoert_") + name + ".so"));
  const Result result = load_all({folder.path()});
  ASSERT_EQ(result.reports.size(), 5u);
  std::vector<std::string> names;
  for (const FileReport& report : result.reports) names.push_back(report.path.filename());
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(result.plugins[0].path.filename(), "libmoert_0.so");
}

}  // namespace
}  // namespace moert::loader
