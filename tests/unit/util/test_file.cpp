// Mappings, small files, and writing that leaves the old file or the new one.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <utility>

#include <moert/error.hpp>

#include "util/file.hpp"

namespace moert {
namespace {
namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder = fs::path(::testing::TempDir()) / (std::string("moert_files_") + info->name());
    fs::remove_all(folder);
    fs::create_directories(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  fs::path file(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name, std::ios::binary) << text;
    return folder / name;
  }
  size_t entries() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
  }

  fs::path folder;
};

std::optional<Error> error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return {};
}

std::string text_of(const MappedFile& map) {
  return {reinterpret_cast<const char*>(map.bytes().data()), map.bytes().size()};
}

TEST_F(Files, MapsWhatIsThere) {
  const std::string text("a\0b", 3);
  EXPECT_EQ(text_of(MappedFile(file("x", text))), text);
  EXPECT_TRUE(MappedFile(file("empty", "")).bytes().empty());
}

TEST_F(Files, MappingsMove) {
  MappedFile a(file("a", "first")), b(file("b", "second"));
  MappedFile c(std::move(a));
  EXPECT_EQ(text_of(c), "first");
  c = std::move(b);
  EXPECT_EQ(text_of(c), "second");
  EXPECT_EQ(c.path(), folder / "b");
}

TEST_F(Files, ReleasedPagesReadTheSame) {
  std::string text(5 * 4096 + 17, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 23);
  const MappedFile map(file("x", text));
  map.release(0, text.size());
  map.release(100, 9000);
  map.release(text.size(), 0);
  EXPECT_EQ(text_of(map), text);
}

TEST_F(Files, RefusesWhatIsNoFile) {
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  for (const fs::path& path : {folder / "absent", folder, folder / "fifo", fs::path("/dev/null")}) {
    for (const auto& read : {std::function<void()>([&] { MappedFile map(path); }),
                             std::function<void()>([&] { read_text_file(path); })}) {
      const std::optional<Error> error = error_of(read);
      ASSERT_TRUE(error) << path;
      EXPECT_EQ(error->fault(), Fault::input);
      EXPECT_EQ(error->place(), path.string());
      EXPECT_FALSE(error->problem().empty());
      EXPECT_FALSE(error->remedy().empty());
    }
  }
}

TEST_F(Files, ReadsTextUpToTheLimit) {
  const fs::path path = file("x", "12345");
  EXPECT_EQ(read_text_file(path, 5), "12345");
  const std::optional<Error> error = error_of([&] { read_text_file(path, 4); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->fault(), Fault::input);
  EXPECT_NE(error->problem().find("5 bytes"), std::string::npos);
  EXPECT_EQ(read_text_file(file("empty", "")), "");
}

TEST_F(Files, CommitReplacesTheOldFile) {
  const fs::path path = file("x", "old");
  AtomicFile out(path);
  out.write("new", 3);
  out.write(" text", 5);
  EXPECT_EQ(read_text_file(path), "old") << "before commit";
  out.commit();
  EXPECT_EQ(read_text_file(path), "new text");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, AMappedFileIsFilledInAnyOrder) {
  const fs::path path = file("x", "old");
  {
    AtomicFile out(path);
    const std::span<std::byte> bytes = out.map(5000);
    ASSERT_EQ(bytes.size(), 5000u);
    bytes[4999] = std::byte{'z'};
    bytes[0] = std::byte{'a'};
    EXPECT_EQ(read_text_file(path), "old") << "before commit";
    out.commit();
  }
  EXPECT_EQ(read_text_file(path), "a" + std::string(4998, '\0') + "z");
  EXPECT_EQ(entries(), 1u);
  {
    AtomicFile(path).map(100)[0] = std::byte{'b'};
  }
  EXPECT_EQ(read_text_file(path).size(), 5000u) << "without commit";
  EXPECT_EQ(entries(), 1u);
}

// Of the largest size that a file can have, no disk has room.
TEST_F(Files, NoRoomForAMappedFileIsAnError) {
  const fs::path path = file("x", "old");
  const std::optional<Error> error = error_of([&] { AtomicFile(path).map(size_t{1} << 62); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->fault(), Fault::device) << error->what();
  EXPECT_EQ(read_text_file(path), "old");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, WithoutCommitTheOldFileStays) {
  const fs::path path = file("x", "old");
  {
    AtomicFile out(path);
    out.write("new", 3);
  }
  EXPECT_EQ(read_text_file(path), "old");
  EXPECT_EQ(entries(), 1u) << "the temporary file is gone";
}

TEST_F(Files, MakesFoldersAndHonoursTheMask) {
  const fs::path path = folder / "a/b/x";
  const mode_t mask = ::umask(027);
  write_text_file(path, "text");
  ::umask(mask);
  EXPECT_EQ(read_text_file(path), "text");
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST_F(Files, RefusesATargetThatCannotBe) {
  const fs::path path = file("x", "text") / "below_a_file";
  const std::optional<Error> error = error_of([&] { AtomicFile out(path); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->fault(), Fault::usage);
  EXPECT_EQ(error->place(), path.string());
}

TEST_F(Files, RefusesATargetThatIsNoRegularFile) {
  fs::create_directories(folder / "folder");
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  fs::create_symlink("fifo", folder / "link");
  fs::create_symlink("loop", folder / "loop");
  const std::pair<fs::path, const char*> targets[] = {
      {folder / "folder", "a folder"},  {folder / "fifo", "a fifo"}, {folder / "link", "a fifo"},
      {folder / "loop", "without end"}, {"/dev/null", "a device"},   {"", "empty"}};
  const size_t before = entries();
  for (const auto& [path, kind] : targets) {
    const std::optional<Error> error = error_of([&] { AtomicFile out(path); });
    ASSERT_TRUE(error) << path;
    EXPECT_EQ(error->fault(), Fault::usage) << path;
    EXPECT_EQ(error->place(), path.string());
    EXPECT_NE(error->problem().find(kind), std::string::npos) << path << error->what();
  }
  EXPECT_EQ(entries(), before);
  EXPECT_TRUE(fs::is_fifo(folder / "fifo"));
}

// Also a chain, and one whose end is not there yet.
TEST_F(Files, ALinkStaysALink) {
  file("real", "old");
  fs::create_symlink("real", folder / "near");
  fs::create_symlink(folder / "near", folder / "far");
  write_text_file(folder / "far", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "far") && fs::is_symlink(folder / "near"));
  EXPECT_EQ(read_text_file(folder / "real"), "new");
  fs::create_symlink("later", folder / "dangling");
  write_text_file(folder / "dangling", "text");
  EXPECT_TRUE(fs::is_symlink(folder / "dangling"));
  EXPECT_EQ(read_text_file(folder / "later"), "text");
}

TEST_F(Files, WithoutCommitNoFolderIsLeft) {
  fs::create_directories(folder / "there");
  {
    AtomicFile out(folder / "there/a/b/x");
  }
  EXPECT_FALSE(fs::exists(folder / "there/a"));
  EXPECT_TRUE(fs::exists(folder / "there"));
  {
    AtomicFile out(folder / "there/a/b/x");
    std::ofstream(folder / "there/a/y") << "somebody else's";
  }
  EXPECT_TRUE(fs::exists(folder / "there/a/y"));
  EXPECT_FALSE(fs::exists(folder / "there/a/b"));
}

// A full disk, by the limit on a file's size.
TEST_F(Files, AWriteThatFailsKeepsTheOldFile) {
  const fs::path path = file("x", "old");
  struct rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = limit;
  small.rlim_cur = 4096;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::optional<Error> error;
  {
    AtomicFile out(path);
    const std::string text(10000, 'x');
    error = error_of([&] { out.write(text.data(), text.size()); });
  }
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, handler);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->fault(), Fault::device);
  EXPECT_EQ(read_text_file(path), "old");
  EXPECT_EQ(entries(), 1u);
}

}  // namespace
}  // namespace moert
