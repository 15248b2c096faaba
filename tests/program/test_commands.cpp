// Single commands: plugins that are named, files that are written.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "program.hpp"

namespace moert::testing {
namespace {

namespace fs = std::filesystem;

fs::path plugin(const std::string& name) {
  return fs::path(MOERT_BINARY_DIR) / "lib/moert/plugins-1" / ("libmoert_" + name + ".so");
}

// A plugin whose C library has another name: the text stands in its own table of names, so changing it
// there makes a file that is sound but for a dependency that no machine has.
void write_orphan(const fs::path& file) {
  std::string bytes = read_file(plugin("null"));
  const std::string needed = std::string("\0libc.so.6", 10) + '\0';
  const size_t at = bytes.find(needed);
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at + 1, 9, "libq.so.6");
  write_file(file, bytes);
}

TEST(Plugins, AMissingDependencyIsNamed) {
  const TemporaryFolder folder;
  const fs::path file = folder / "libmoert_null.so";
  write_orphan(file);
  const Ended list = run_moert({"plugins", "list", "--plugin-path", folder.path().string()});
  EXPECT_EQ(list.code, 0) << MOERT_SHOW(list);
  EXPECT_TRUE(contains(list.out, "not used: ")) << MOERT_SHOW(list);
  EXPECT_TRUE(contains(list.out, "libq.so.6")) << MOERT_SHOW(list);
  // Who names the file itself wants that file.
  for (const std::vector<std::string>& command : {std::vector<std::string>{"plugins", "list"},
                                                  {"plugins", "show", "cpu"},
                                                  {"run", run_file("olmoe-f32")},
                                                  {"explain", run_file("olmoe-f32")}}) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"--plugin-path", file.string()});
    const Ended ended = run_moert(arguments, {.folder = folder.path()});
    EXPECT_EQ(ended.code, 3) << MOERT_SHOW(ended);
    EXPECT_TRUE(contains(ended.err, "libq.so.6")) << MOERT_SHOW(ended);
    EXPECT_TRUE(contains(ended.err, file.string())) << MOERT_SHOW(ended);
  }
}

TEST(Plugins, FilesThatAreNoPluginsAreMentioned) {
  const TemporaryFolder folder;
  write_file(folder / "libmoert_text.so", "hello");
  write_file(folder / "libmoert_short.so", read_file(plugin("null")).substr(0, 3000));
  fs::create_directories(folder / "libmoert_folder.so");
  const Ended list =
      run_moert({"plugins", "list", "--all", "--plugin-path", folder.path().string()});
  EXPECT_EQ(list.code, 0) << MOERT_SHOW(list);
  for (const char* name : {"libmoert_text.so", "libmoert_short.so", "libmoert_folder.so"})
    EXPECT_TRUE(contains(list.out, name)) << MOERT_SHOW(list);
  const Ended run =
      run_moert({"run", run_file("olmoe-f32"), "--plugin-path", folder.path().string()},
                {.folder = folder.path()});
  EXPECT_EQ(run.code, 0) << MOERT_SHOW(run);
}

TEST(Plugins, OnlyThoseThatAreAllowed) {
  const Json list = run_moert({"plugins", "list", "--plugins", "cpu,quant", "--json"}).json();
  std::vector<std::string> names;
  for (const Json& entry : list.at("plugins")) names.push_back(entry.at("name").get<std::string>());
  EXPECT_EQ(names, (std::vector<std::string>{"core", "cpu", "quant"}));
  const Json same =
      run_moert({"plugins", "list", "--json"}, {.environment = {{"MOERT_PLUGINS", "cpu,quant"}}})
          .json();
  EXPECT_EQ(same.at("plugins"), list.at("plugins"));
}

TEST(Plugins, ShowTakesNameOrId) {
  const Json by_name = run_moert({"plugins", "show", "cpu", "--json"}).json();
  const Json by_id =
      run_moert({"plugins", "show", by_name.at("plugin").at("id").get<std::string>(), "--json"})
          .json();
  EXPECT_EQ(by_name.at("plugin"), by_id.at("plugin"));
}

TEST(Describe, WritesWhatItPrints) {
  const TemporaryFolder folder;
  const std::string data = data_folder("mixtral-f32").string();
  const Ended printed = run_moert({"model", "describe", data});
  ASSERT_EQ(printed.code, 0) << MOERT_SHOW(printed);
  const Ended written =
      run_moert({"model", "describe", data, "-o", (folder / "deep/model.yaml").string()});
  ASSERT_EQ(written.code, 0) << MOERT_SHOW(written);
  EXPECT_EQ(read_file(folder / "deep/model.yaml"), printed.out);
  const Ended inspected = run_moert({"model", "inspect", (folder / "deep/model.yaml").string()});
  EXPECT_EQ(inspected.code, 0) << MOERT_SHOW(inspected);
  const Ended explained = run_moert({"explain", (folder / "deep/model.yaml").string()});
  EXPECT_EQ(explained.code, 0) << MOERT_SHOW(explained);
}

TEST(Describe, APlaceThatCannotBeWrittenIsAnError) {
  const Ended ended = run_moert(
      {"model", "describe", data_folder("mixtral-f32").string(), "-o", "/proc/nope/x.yaml"});
  EXPECT_EQ(ended.code, 2) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.err, "/proc/nope/x.yaml")) << MOERT_SHOW(ended);
}

TEST(Run, SetOverridesPins) {
  const TemporaryFolder folder;
  const Ended ended =
      run_moert({"run", run_file("olmoe-f32"), "--set", "layers.router=null.router", "--json"},
                {.folder = folder.path()});
  EXPECT_EQ(ended.code, 1) << MOERT_SHOW(
      ended);  // the null router takes experts 0, 1, 2: not as expected
  const Json layer = ended.json().at("layers").at(0);
  EXPECT_EQ(layer.at("candidates").at("router").get<std::string>(), "null.router");
  EXPECT_GT(layer.at("check").at("rows_with_wrong_ids").get<int>(), 0);
  EXPECT_EQ(layer.at("load").at("dead_experts").get<int>(), 5);
}

TEST(Run, LaterSetWins) {
  const TemporaryFolder folder;
  const Ended ended =
      run_moert({"run", run_file("olmoe-f32"), "--set", "outputs.file=a.safetensors", "--set",
                 "outputs.file=b.safetensors", "--set", "capture=[]"},
                {.folder = folder.path()});
  EXPECT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  EXPECT_EQ(files_below(folder.path()), std::vector<std::string>{"b.safetensors"});
}

// A plugin may have variables of its own, which the program cannot know.
TEST(Variables, OneThatOnlyAPluginMayKnowIsSaidToBeThat) {
  const Ended ended = run_moert({"env"}, {.environment = {{"MOERT_DEVICES", "1"}}});
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  for (const std::string& text : {ended.out, ended.err})
    EXPECT_TRUE(contains(text, "unknown to moert itself, a plugin may read it"))
        << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.err, "did you mean 'MOERT_DEVICE'")) << MOERT_SHOW(ended);
}

}  // namespace
}  // namespace moert::testing
