// Outputs never replace what a run reads, and a place that cannot be written is found at once.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "program.hpp"

namespace moert::testing {
namespace {
namespace fs = std::filesystem;

class OwnOutputs : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::copy(data_folder("olmoe-f32"), folder / "data", fs::copy_options::recursive);
    write_file(folder / "run.yaml", run_yaml("data"));
  }
  Ended run(const std::vector<std::string>& settings, const std::string& shell = {}) const {
    std::vector<std::string> words = {"run", "run.yaml"};
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    return run_moert(words, {.folder = folder.path(), .shell = shell});
  }
  TemporaryFolder folder;
};

TEST_F(OwnOutputs, NeverReplaceAnInput) {
  fs::create_symlink("data/config.json", folder / "link");
  const std::vector<std::string> before = files_below(folder.path());
  for (const char* name : {"data/model.safetensors", "data/config.json", "data/golden.safetensors",
                           "run.yaml", "link"}) {
    const std::string text = read_file(folder / name);
    for (const std::string key : {"outputs.file", "capture[0].path"}) {
      const std::string setting = key[0] == 'o'
                                      ? key + "=" + name
                                      : "capture=[{to: memory, path: " + std::string(name) + "}]";
      const Ended ended = run({setting});
      EXPECT_EQ(ended.code, 2) << MOERT_SHOW(ended);
      EXPECT_TRUE(contains(ended.err, key)) << MOERT_SHOW(ended);
      EXPECT_TRUE(contains(ended.err, "would replace")) << MOERT_SHOW(ended);
    }
    EXPECT_TRUE(read_file(folder / name) == text) << name;
  }
  EXPECT_EQ(files_below(folder.path()), before);
}

TEST_F(OwnOutputs, TwoInOneFileAreRefused) {
  fs::create_symlink("out.safetensors", folder / "link");
  const Ended ended = run({"outputs.file=out.safetensors", "capture=[{to: memory, path: link}]"});
  EXPECT_EQ(ended.code, 2) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.err, "the same file")) << MOERT_SHOW(ended);
}

// Before any weight is read: the checkpoint's are damaged, and nobody notices.
TEST_F(OwnOutputs, APlaceThatCannotBeWrittenIsFoundFirst) {
  write_file(folder / "data/model.safetensors", "damaged");
  for (const char* place : {"run.yaml/below", "/dev/null", "data", "/proc/out.safetensors"}) {
    const Ended ended = run({"outputs.file=" + std::string(place)});
    EXPECT_EQ(ended.code, 2) << MOERT_SHOW(ended);
    EXPECT_TRUE(contains(ended.err, "cannot write there")) << MOERT_SHOW(ended);
  }
  const Ended ended = run({"outputs.file=new/folder/out.safetensors"});
  EXPECT_EQ(ended.code, 6) << MOERT_SHOW(ended);
  EXPECT_FALSE(fs::exists(folder / "new"));
}

TEST_F(OwnOutputs, AFolderThatCannotBeMadeIsNamedWithTheReason) {
  fs::create_directory_symlink("nowhere", folder / "link");
  const Ended dangling = run({"outputs.file=link/new/out.safetensors"});
  EXPECT_EQ(dangling.code, 2) << MOERT_SHOW(dangling);
  EXPECT_TRUE(contains(dangling.err, "cannot write there: the folder")) << MOERT_SHOW(dangling);
  EXPECT_TRUE(contains(dangling.err, "link cannot be made: ")) << MOERT_SHOW(dangling);
  EXPECT_FALSE(contains(dangling.err, "No such file")) << MOERT_SHOW(dangling);
  if (::geteuid() == 0) return;  // may write everywhere
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
  const Ended denied = run({"outputs.file=out/out.safetensors"});
  fs::permissions(folder.path(), fs::perms::owner_all);
  EXPECT_EQ(denied.code, 2) << MOERT_SHOW(denied);
  EXPECT_TRUE(contains(denied.err, "out cannot be made: Permission denied")) << MOERT_SHOW(denied);
}

TEST_F(OwnOutputs, DescribeKeepsTheCheckpoint) {
  for (const char* name : {"data/config.json", "data/model.safetensors"}) {
    const std::string text = read_file(folder / name);
    const Ended ended =
        run_moert({"model", "describe", "data", "-o", name}, {.folder = folder.path()});
    EXPECT_EQ(ended.code, 2) << MOERT_SHOW(ended);
    EXPECT_TRUE(contains(ended.err, "would replace")) << MOERT_SHOW(ended);
    EXPECT_TRUE(read_file(folder / name) == text) << name;
  }
}

TEST_F(OwnOutputs, ALimitOnTheSizeOfFilesIsAnErrorWithoutRemnant) {
  const std::vector<std::string> before = files_below(folder.path());
  const Ended ended =
      run_moert({"--version"}, {.folder = folder.path(),
                                .shell = "; ulimit -f 1; exec " + std::string(MOERT_PROGRAM) +
                                         " run run.yaml --set outputs.file=out.safetensors"});
  EXPECT_EQ(ended.signal, 0) << MOERT_SHOW(ended);
  EXPECT_EQ(ended.code, 5) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.err, "cannot write the file")) << MOERT_SHOW(ended);
  EXPECT_EQ(files_below(folder.path()), before);
}

TEST_F(OwnOutputs, AWorkingFolderThatIsGoneIsNoDefect) {
  fs::create_directories(folder / "gone");
  const Ended ended =
      run_moert({"--version"}, {.folder = folder / "gone",
                                .shell = "; rmdir ../gone; exec " + std::string(MOERT_PROGRAM) +
                                         " run run.yaml --set repeat=2"});
  EXPECT_EQ(ended.code, 2) << MOERT_SHOW(ended);
  EXPECT_FALSE(contains(ended.err, "defect")) << MOERT_SHOW(ended);
}

}  // namespace
}  // namespace moert::testing
