// A folder that appears whole or not at all.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <moert/error.hpp>

#include "util/folder.hpp"

namespace moert {
namespace {
namespace fs = std::filesystem;

class Folders : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    top = fs::path(::testing::TempDir()) / (std::string("moert_folders_") + info->name());
    fs::remove_all(top);
    fs::create_directories(top);
  }
  void TearDown() override { fs::remove_all(top); }
  size_t entries() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(top), fs::directory_iterator()));
  }
  fs::path top;
};

TEST_F(Folders, AppearsWithItsFilesOnCommit) {
  AtomicFolder folder(top / "a/b/out/");
  EXPECT_TRUE(folder.path().filename().string().starts_with(".out."));
  std::ofstream(folder.path() / "x") << "x";
  EXPECT_FALSE(fs::exists(top / "a/b/out"));
  folder.commit();
  EXPECT_TRUE(fs::exists(top / "a/b/out/x"));
  EXPECT_EQ(std::distance(fs::directory_iterator(top / "a/b"), fs::directory_iterator()), 1);
}

TEST_F(Folders, LeavesNothingWithoutCommit) {
  {
    AtomicFolder folder(top / "a/b/out");
    std::ofstream(folder.path() / "x") << "x";
  }
  EXPECT_EQ(entries(), 0u);
}

TEST_F(Folders, OneAboveThatCannotBeMadeIsTheReason) {
  fs::create_symlink("nowhere", top / "link");
  try {
    AtomicFolder folder(top / "link/a/out");
    FAIL() << "a folder below nothing";
  } catch (const Error& error) {
    EXPECT_NE(error.problem().find("link/a cannot be made: "), std::string::npos)
        << error.problem();
    EXPECT_EQ(error.problem().find("No such file"), std::string::npos) << error.problem();
  }
  EXPECT_EQ(entries(), 1u);
}

// "link/.." is the folder above the one that the link leads to.
TEST_F(Folders, ALinkOnTheWayIsFollowed) {
  fs::create_directories(top / "elsewhere/deep");
  fs::create_directories(top / "here");
  fs::create_directory_symlink(top / "elsewhere/deep", top / "here/link");
  AtomicFolder folder(top / "here/link/../out");
  folder.commit();
  EXPECT_TRUE(fs::is_directory(top / "elsewhere/out"));
  EXPECT_FALSE(fs::exists(top / "here/out"));
}

TEST_F(Folders, TakesThePlaceOfAnEmptyOne) {
  fs::create_directory(top / "out");
  AtomicFolder folder(top / "out");
  std::ofstream(folder.path() / "x") << "x";
  folder.commit();
  EXPECT_TRUE(fs::exists(top / "out/x"));
}

TEST_F(Folders, RefusesWhatIsThere) {
  fs::create_directory(top / "full");
  std::ofstream(top / "full/x") << "x";
  std::ofstream(top / "file") << "x";
  EXPECT_THROW(AtomicFolder(top / "full"), Error);
  EXPECT_THROW(AtomicFolder(top / "file"), Error);
  EXPECT_THROW(AtomicFolder(top / "file/below"), Error);
  EXPECT_THROW(AtomicFolder("."), Error);
  EXPECT_THROW(AtomicFolder("/"), Error);
  EXPECT_EQ(entries(), 2u);
  EXPECT_TRUE(fs::exists(top / "full/x"));
}

TEST_F(Folders, RoomIsLookedAt) {
  const AtomicFolder folder(top / "out");
  folder.require_room(1);
  EXPECT_THROW(folder.require_room(uint64_t{1} << 62), Error);
}

}  // namespace
}  // namespace moert
