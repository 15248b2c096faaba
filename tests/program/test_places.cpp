// Where the program stands and what lies around it must not matter.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "program.hpp"

namespace moert::testing {
namespace {

namespace fs = std::filesystem;

// The built program and its families, without any plugin, below another prefix.
fs::path bare_program(const TemporaryFolder& folder) {
  fs::create_directories(folder / "prefix/bin");
  fs::copy(MOERT_PROGRAM, folder / "prefix/bin/moert");
  fs::copy(fs::path(MOERT_PROGRAM).parent_path().parent_path() / "share", folder / "prefix/share",
           fs::copy_options::recursive);
  return folder / "prefix/bin/moert";
}

fs::path plugin_folder() { return fs::path(MOERT_BINARY_DIR) / "lib/moert/plugins-1"; }

TEST(Places, WithoutPluginsTheTableIsEmptyAndTheExitCodeFour) {
  const TemporaryFolder folder;
  const fs::path program = bare_program(folder);
  fs::create_directories(folder / "prefix/lib/moert/plugins-1");
  const Ended ended =
      run_moert({"run", run_file("olmoe-f32")}, {.folder = folder.path(), .program = program});
  EXPECT_EQ(ended.code, 4) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.err, (folder / "prefix/lib/moert/plugins-1").string()))
      << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.err, "moert plugins list --all")) << MOERT_SHOW(ended);
  const Ended list = run_moert({"plugins", "list", "--all"}, {.program = program});
  EXPECT_EQ(list.code, 0) << MOERT_SHOW(list);
  EXPECT_TRUE(contains(list.out, "core")) << MOERT_SHOW(list);
  EXPECT_TRUE(contains(list.out, "no file was looked at")) << MOERT_SHOW(list);
}

TEST(Places, PluginsAreFoundByFlagAndByVariable) {
  const TemporaryFolder folder;
  const fs::path program = bare_program(folder);
  const Ended flag =
      run_moert({"run", run_file("olmoe-f32"), "--plugin-path", plugin_folder().string()},
                {.folder = folder.path(), .program = program});
  EXPECT_EQ(flag.code, 0) << MOERT_SHOW(flag);
  const Ended variable =
      run_moert({"run", run_file("olmoe-f32")},
                {.folder = folder.path(),
                 .program = program,
                 .environment = {{"MOERT_PLUGIN_PATH", plugin_folder().string()}}});
  EXPECT_EQ(variable.code, 0) << MOERT_SHOW(variable);
}

TEST(Places, WithoutFamiliesTheErrorSaysWhereTheyWereLookedFor) {
  const TemporaryFolder folder;
  const fs::path program = bare_program(folder);
  fs::remove_all(folder / "prefix/share");
  const Ended ended =
      run_moert({"model", "inspect", data_folder("olmoe-f32").string()}, {.program = program});
  EXPECT_EQ(ended.code, 2) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.err, (folder / "prefix/share/moert/families").string()))
      << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.err, "--families")) << MOERT_SHOW(ended);
  const Ended named = run_moert({"model", "inspect", data_folder("olmoe-f32").string(),
                                 "--families", (source_folder() / "configs/families").string()},
                                {.program = program});
  EXPECT_EQ(named.code, 0) << MOERT_SHOW(named);
}

TEST(Places, NothingOfTheWorkingFolderIsPickedUp) {
  const TemporaryFolder folder;
  for (const char* name :
       {"libmoert_cpu.so", "libmoert_evil.so", "plugins-1/libmoert_evil.so",
        "lib/moert/plugins-1/libmoert_evil.so", "moert/plugins-1/libmoert_evil.so"})
    write_file(folder / name, "not a library");
  write_file(folder / "share/moert/families/olmoe.yaml", "not a family");
  write_file(folder / "families/olmoe.yaml", "not a family");
  write_file(folder / "config.json", "{");
  write_file(folder / "model.safetensors", "evil");
  const Ended ended = run_moert({"run", run_file("olmoe-f32")}, {.folder = folder.path()});
  EXPECT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  const Ended list = run_moert({"plugins", "list", "--all", "--json"}, {.folder = folder.path()});
  const Json listed = list.json();  // held while it is looked through
  EXPECT_FALSE(listed.at("files").empty());
  for (const Json& file : listed.at("files"))
    EXPECT_FALSE(contains(file.at("path").get<std::string>(), folder.path().string())) << file;
}

TEST(Places, AWorkingFolderThatIsGoneDoesNotMatter) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "gone");
  // The shell stands in the folder while it removes it.
  const Ended ended =
      run_moert({"model", "inspect", data_folder("olmoe-f32").string()},
                {.folder = folder / "gone",
                 .shell = "; rmdir ../gone; " + std::string(MOERT_PROGRAM) + " plugins list"});
  EXPECT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.out, "org.moert.core")) << MOERT_SHOW(ended);
}

TEST(Places, ThroughALinkAndThroughPath) {
  const TemporaryFolder folder;
  fs::create_symlink(MOERT_PROGRAM, folder / "m");
  const Ended ended =
      run_moert({"run", run_file("olmoe-f32")}, {.folder = folder.path(), .program = folder / "m"});
  EXPECT_EQ(ended.code, 0) << MOERT_SHOW(ended);
}

TEST(Places, RelativePathsOfARunAreRelativeToItsFile) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "elsewhere");
  fs::copy(data_folder("olmoe-f32"), folder / "data", fs::copy_options::recursive);
  write_file(folder / "run.yaml", run_yaml("data"));
  const Ended ended = run_moert({"run", "../run.yaml"}, {.folder = folder / "elsewhere"});
  EXPECT_EQ(ended.code, 0) << MOERT_SHOW(ended);
}

TEST(Places, AnInstalledTreeCanBeMoved) {
  const TemporaryFolder folder;
  for (const char* component : {"runtime", "plugins"}) {
    const std::string install =
        std::string(MOERT_CMAKE) + " --install " + MOERT_BINARY_DIR + " --component " + component +
        " --prefix " + (folder / "first").string() + " >" + (folder / "log").string() + " 2>&1";
    ASSERT_EQ(std::system(install.c_str()), 0) << install << "\n" << read_file(folder / "log");
  }
  fs::rename(folder / "first", folder / "second");
  const fs::path program = folder / "second/bin/moert";
  const Ended ended =
      run_moert({"run", run_file("mixtral-f32")}, {.folder = folder.path(), .program = program});
  EXPECT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  const Json list = run_moert({"plugins", "list", "--json"}, {.program = program}).json();
  for (const Json& plugin : list.at("plugins"))
    if (plugin.at("name") != "core") {
      EXPECT_EQ(plugin.at("path").get<std::string>().rfind((folder / "second").string(), 0), 0u)
          << plugin;
    }
}

TEST(Variables, UnknownOnesAreWarnedAbout) {
  const Ended ended = run_moert({"env"}, {.environment = {{"MOERT_DEVISE", "cpu"}}});
  EXPECT_EQ(ended.code, 0);
  EXPECT_TRUE(contains(ended.err, "MOERT_DEVISE")) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.err, "did you mean 'MOERT_DEVICE'")) << MOERT_SHOW(ended);
  const Ended quiet = run_moert({"env", "-q"}, {.environment = {{"MOERT_DEVISE", "cpu"}}});
  EXPECT_EQ(quiet.err, "") << MOERT_SHOW(quiet);
}

TEST(Variables, LogGoesToTheFile) {
  const TemporaryFolder folder;
  const Ended ended = run_moert(
      {"env"},
      {.environment = {{"MOERT_LOG_FILE", (folder / "log").string()}, {"MOERT_DEVISE", "cpu"}}});
  EXPECT_EQ(ended.err, "") << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(read_file(folder / "log"), "MOERT_DEVISE"));
}

TEST(Output, HasNoColourInAPipe) {
  const Ended ended = run_moert({"plugins", "list"});
  EXPECT_EQ(ended.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(ended.err, "");
}

}  // namespace
}  // namespace moert::testing
