// Files made by the test: damaged, of the wrong kind, with the wrong owner, in the wrong place.
// SPDX-License-Identifier: Apache-2.0
#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "zoo.hpp"

namespace moert::loader {
namespace {

using namespace test;

// The bytes of the good C plugin with one of them changed.
std::string patched(size_t offset, unsigned char value) {
  std::string bytes = bytes_of(built("good_c"));
  bytes.at(offset) = static_cast<char>(value);
  return bytes;
}
// ... and with a word of its note changed. `member` is an offset in moert_note_desc_t.
std::string patched_note(size_t member, uint32_t value) {
  std::string bytes = bytes_of(built("good_c"));
  const size_t owner = bytes.find(std::string("MOERT\0\0\0", 8));
  std::memcpy(&bytes.at(owner + 8 + member), &value, sizeof value);
  return bytes;
}

struct Case {
  const char* name;
  std::function<void(const fs::path&)> make;
  Outcome outcome;
  const char* detail;
};
void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }

class Made : public testing::TestWithParam<Case> {};

TEST_P(Made, IsReportedAndNeverMapped) {
  const Case& test = GetParam();
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "libmoert_made.so";
  test.make(file);
  const Result result = load_all({folder.path(), built("good_cpp").parent_path()});
  expect_outcome(result, file, test.outcome, test.detail);
  expect_good_neighbour(result);
  EXPECT_EQ(result.plugins.size(), 1u);
  EXPECT_FALSE(is_mapped(file));
}

std::function<void(const fs::path&)> with(const std::string& bytes) {
  return [bytes](const fs::path& file) { write(file, bytes); };
}
std::function<void(const fs::path&)> header_byte(size_t offset, unsigned char value) {
  return [=](const fs::path& file) { write(file, patched(offset, value)); };
}
std::function<void(const fs::path&)> note_word(size_t member, uint32_t value) {
  return [=](const fs::path& file) { write(file, patched_note(member, value)); };
}

INSTANTIATE_TEST_SUITE_P(
    Files, Made,
    testing::Values(
        Case{"Empty", with(""), Outcome::not_a_library, "the file is empty"},
        Case{"Text", with("This is no library.\n"), Outcome::not_a_library, "not an ELF file"},
        Case{"OneByte", with("\x7f"), Outcome::not_a_library, "not an ELF file"},
        Case{"Archive", with("!<arch>\n" + std::string(1000, '\0')), Outcome::not_a_library,
             "not an ELF file"},
        Case{"LinkerScript", with("INPUT(libother.so)\n"), Outcome::not_a_library,
             "not an ELF file"},
        Case{"Folder", [](const fs::path& file) { fs::create_directory(file); },
             Outcome::not_a_library, "not a library but a folder"},
        Case{"DanglingLink",
             [](const fs::path& file) { fs::create_symlink("/nowhere/at/all.so", file); },
             Outcome::not_a_library, "cannot open: No such file"},
        Case{"LoopOfLinks", [](const fs::path& file) { fs::create_symlink(file, file); },
             Outcome::not_a_library, "cannot open: "},
        Case{"NamedPipe", [](const fs::path& file) { ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0); },
             Outcome::not_a_library, "not a library but a named pipe"},
        Case{"Device", [](const fs::path& file) { fs::create_symlink("/dev/zero", file); },
             Outcome::not_a_library, "not a library but a device file"}),
    [](const auto& test_info) { return test_info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Headers, Made,
    testing::Values(Case{"Class32", header_byte(EI_CLASS, ELFCLASS32), Outcome::not_a_library,
                         "not a 64-bit"},
                    Case{"BigEndian", header_byte(EI_DATA, ELFDATA2MSB), Outcome::not_a_library,
                         "not a little-endian"},
                    Case{"Machine", header_byte(offsetof(Elf64_Ehdr, e_machine), EM_386),
                         Outcome::not_a_library, "built for i386, this machine is "},
                    Case{"Program", header_byte(offsetof(Elf64_Ehdr, e_type), ET_EXEC),
                         Outcome::not_a_library, "not a shared library"},
                    Case{"Object", header_byte(offsetof(Elf64_Ehdr, e_type), ET_REL),
                         Outcome::not_a_library, "not a shared library"},
                    Case{"NoSegments", header_byte(offsetof(Elf64_Ehdr, e_phnum), 0),
                         Outcome::not_a_library, "program headers have no valid size"},
                    Case{"SegmentsFarAway", header_byte(offsetof(Elf64_Ehdr, e_phoff) + 6, 0x7f),
                         Outcome::not_a_library, "program headers lie beyond its end"}),
    [](const auto& test_info) { return test_info.param.name; });

constexpr uint32_t kOtherSanitizer = MOERT_BUILD_SANITIZER == MOERT_SANITIZER_ADDRESS
                                         ? uint32_t{MOERT_SANITIZER_NONE}
                                         : uint32_t{MOERT_SANITIZER_ADDRESS};

INSTANTIATE_TEST_SUITE_P(
    Notes, Made,
    testing::Values(Case{"OtherSanitizer",
                         note_word(offsetof(moert_note_desc_t, sanitizer), kOtherSanitizer),
                         Outcome::incompatible, "this host with "},
                    Case{"UnknownProcessor", note_word(offsetof(moert_note_desc_t, isa), 1u << 31),
                         Outcome::incompatible, "unknown bits 2147483648"},
                    Case{"ShortNote", note_word(offsetof(moert_note_desc_t, desc_size), 24),
                         Outcome::incompatible, "its note has 24 bytes, revision 1 has 112"},
                    Case{"LongNote", note_word(offsetof(moert_note_desc_t, desc_size), 4096),
                         Outcome::bad_descriptor, "its note is shorter than it says"},
                    Case{"NoId", note_word(offsetof(moert_note_desc_t, id), 0),
                         Outcome::bad_descriptor, "no well-formed id"},
                    Case{"ControlsInId", note_word(offsetof(moert_note_desc_t, id), 0x07070707),
                         Outcome::bad_descriptor, "no well-formed id"}),
    [](const auto& test_info) { return test_info.param.name; });

void copy_good(const fs::path& file) { write(file, bytes_of(built("good_c"))); }

INSTANTIATE_TEST_SUITE_P(
    Policy, Made,
    testing::Values(Case{"WritableFile",
                         [](const fs::path& file) {
                           copy_good(file);
                           fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
                         },
                         Outcome::refused, "everybody may write the file"},
                    Case{"WritableFolder",
                         [](const fs::path& file) {
                           copy_good(file);
                           fs::permissions(file.parent_path(), fs::perms::others_write,
                                           fs::perm_options::add);
                         },
                         Outcome::refused, "everybody may write the folder"},
                    Case{"LinkInWritableFolder",
                         [](const fs::path& file) {
                           fs::create_directory(file.parent_path() / "safe");
                           copy_good(file.parent_path() / "safe/target.so");
                           fs::permissions(file.parent_path(), fs::perms::others_write,
                                           fs::perm_options::add);
                           fs::create_symlink("safe/target.so", file);
                         },
                         Outcome::refused, "everybody may write the folder"},
                    Case{"WritableTarget",
                         [](const fs::path& file) {
                           const fs::path open = file.parent_path() / "open";
                           fs::create_directory(open);
                           copy_good(open / "target.so");
                           fs::permissions(open, fs::perms::others_write, fs::perm_options::add);
                           fs::create_symlink(open / "target.so", file);
                         },
                         Outcome::refused, "everybody may write the folder"}),
    [](const auto& test_info) { return test_info.param.name; });

TEST(Policy, OwnersOtherThanRootAndSelf) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "libmoert_made.so";
  copy_good(file);
  ASSERT_EQ(::chown(file.c_str(), 12345, 0), 0);
  expect_outcome(load_all({file}), file, Outcome::refused, "belongs to user 12345");
  ASSERT_EQ(::chown(file.c_str(), 0, 0), 0);
  ASSERT_EQ(::chown(folder.path().c_str(), 12345, 0), 0);
  expect_outcome(load_all({file}), file, Outcome::refused, "belongs to user 12345");
  EXPECT_FALSE(is_mapped(file));
}

TEST(Policy, AllowList) {
  const TemporaryFolder folder;
  const fs::path renamed = folder.path() / "libmoert_renamed.so";
  copy_good(renamed);
  const fs::path file = built("good_c");
  struct {
    fs::path file;
    std::vector<std::string> allow;
    Outcome outcome;
    const char* detail;
  } const cases[] = {
      {file, {"org.zoo.c"}, Outcome::loaded, ""},
      {file, {"other", "org.zoo.c"}, Outcome::loaded, ""},
      {renamed, {"org.zoo.c"}, Outcome::loaded, ""},
      {renamed, {"zoo_c"}, Outcome::refused, "'org.zoo.c' is not in the list"},
      {file, {"org.zoo"}, Outcome::refused, "'org.zoo.c' is not in the list"},
      // The file's name let it through, its own name does not.
      {renamed, {"renamed"}, Outcome::refused, "short name 'zoo_c' is not in the list"},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.file.string() + " with " + test.allow[0]);
    Options options = options_for({test.file});
    options.allow = test.allow;
    expect_outcome(load(options, ignore_log), test.file, test.outcome, test.detail);
  }
}

// Cut at every 512 bytes: either the loader sees it, or the linker can live with it.
TEST(Truncated, AtEvery512Bytes) {
  const std::string bytes = bytes_of(built("good_c"));
  ASSERT_GT(bytes.size(), 4096u);
  const TemporaryFolder folder;
  size_t refused = 0, loaded = 0;
  for (size_t size = 0; size < bytes.size(); size += 512) {
    const fs::path file = folder.path() / ("libmoert_cut" + std::to_string(size) + ".so");
    write(file, bytes.substr(0, size));
    const Result result = load_all({file});
    ASSERT_EQ(result.reports.size(), 1u);
    const FileReport& report = result.reports[0];
    ASSERT_TRUE(report.outcome == Outcome::not_a_library || report.outcome == Outcome::loaded)
        << "cut at " << size << ": " << outcome_name(report.outcome) << ": " << report.detail;
    EXPECT_EQ(is_mapped(file), report.outcome == Outcome::loaded) << "cut at " << size;
    (report.outcome == Outcome::loaded ? loaded : refused) += 1;
  }
  EXPECT_GT(refused, 4u);
  RecordProperty("refused", static_cast<int>(refused));
  RecordProperty("loaded", static_cast<int>(loaded));
}

TEST(Search, WorkingDirectoryIsNeverSearched) {
  const TemporaryFolder folder;
  const fs::path evil = folder.path() / "libmoert_evil.so",
                 nested = folder.path() / "plugins" / "libmoert_evil.so";
  copy_good(evil);
  fs::create_directory(nested.parent_path());
  copy_good(nested);
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  ::setenv("XDG_DATA_HOME", ".", 1);
  ::setenv("HOME", "", 1);
  std::vector<std::string> said;
  for (const char* value : {"", ":", ".", "./", "plugins", "::plugins:", "./libmoert_evil.so"}) {
    ::setenv("MOERT_PLUGIN_PATH", value, 1);
    Options options;
    options.search = search_path(
        {}, [&](LogLevel, const std::string&, const std::string& text) { said.push_back(text); });
    for (const SearchEntry& entry : options.search)
      EXPECT_TRUE(entry.path.is_absolute()) << entry.path;
    for (const FileReport& report : load(options, ignore_log).reports)
      EXPECT_NE(report.path.filename(), "libmoert_evil.so") << value;
    EXPECT_FALSE(is_mapped(evil)) << value;
    EXPECT_FALSE(is_mapped(nested)) << value;
  }
  fs::current_path(before);
  EXPECT_EQ(said.size(), 5u) << "every relative entry is named in the log";
}

TEST(Search, EveryCandidateOfAFolderIsReported) {
  const TemporaryFolder folder;
  copy_good(folder.path() / "libmoert_good.so");
  for (const char* name :
       {"libmoert_x.so.1", "libmoert_", "libmoert_.so", "libhelper.so", "notes.txt", "x.so"})
    write(folder.path() / name, "text");
  const Result result = load_all({folder.path()});
  EXPECT_EQ(result.reports.size(), 6u);
  EXPECT_EQ(report_of(result, folder.path() / "notes.txt"), nullptr);
  for (const char* name : {"libmoert_x.so.1", "libmoert_", "libmoert_.so", "libhelper.so", "x.so"})
    expect_outcome(result, folder.path() / name, Outcome::no_note,
                   "plugins are named libmoert_<name>.so");
  expect_outcome(result, folder.path() / "libmoert_good.so", Outcome::loaded, "");
}

TEST(Search, FileIsTakenUnderAnyName) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "anything";
  copy_good(file);
  expect_outcome(load_all({file}), file, Outcome::loaded, "");
}

}  // namespace
}  // namespace moert::loader
