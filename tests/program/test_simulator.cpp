// A run on a device that is no processor: the simulated GPU, found like any plugin.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "program.hpp"

namespace moert::testing {
namespace {

const std::string kPlugins = std::string(MOERT_BINARY_DIR) + "/lib/moert/test-plugins";

std::string on_device(const std::string& device, const std::string& more = {}) {
  std::string text = run_yaml(data_folder("olmoe-tiny"), more);
  const std::string other = "device: cpu";
  return text.replace(text.find(other), other.size(), "device: " + device);
}

TEST(Simulator, RunsChecksAndCaptures) {
  const TemporaryFolder folder;
  write_file(folder / "run.yaml",
             on_device("sim32:0",
                       "  capture:\n    - { to: memory, path: host.safetensors }\n"
                       "    - { to: sim32.memory, path: device.safetensors }\n"));
  const Ended ended = run_moert({"run", "run.yaml", "--plugin-path", kPlugins, "--json"},
                                {.folder = folder.path()});
  ASSERT_EQ(ended.code, 0) << ended.command << "\n" << ended.err;
  const Json report = ended.json();
  EXPECT_EQ(report.at("device").get<std::string>(), "sim32:0");
  EXPECT_TRUE(report.at("passed").get<bool>());
  for (const Json& layer : report.at("layers"))
    EXPECT_EQ(layer.at("check").at("rows_with_wrong_ids").get<int>(), 0) << layer;
  EXPECT_EQ(read_file(folder / "host.safetensors"), read_file(folder / "device.safetensors"));
}

// What is short of memory says what it was for.
TEST(Simulator, MemoryThatIsNotThereIsNamed) {
  const TemporaryFolder folder;
  struct Case {
    const char *megabytes, *capture;
    std::vector<std::string> texts;
  };
  const std::vector<Case> cases = {
      {"32",
       "  capture: [{ to: sim32.memory, options: { buffer_mb: 64 } }]\n",
       {"the ring of", "which buffer_mb sizes", "bytes were asked for"}},
      {"1", "", {"packed weights of", "bytes were asked for"}}};
  for (const Case& c : cases) {
    write_file(folder / "run.yaml", on_device("sim32:0", c.capture));
    const Ended ended =
        run_moert({"run", "run.yaml", "--plugin-path", kPlugins},
                  {.folder = folder.path(), .environment = {{"MOERT_SIM_MEMORY_MB", c.megabytes}}});
    EXPECT_EQ(ended.code, 5) << ended.command << "\n" << ended.err;
    for (const std::string& text : c.texts) EXPECT_TRUE(contains(ended.err, text)) << ended.err;
  }
}

TEST(Simulator, ADeviceThatIsNotThereIsNamed) {
  const TemporaryFolder folder;
  const Start with = {.folder = folder.path(), .environment = {{"MOERT_PLUGIN_PATH", kPlugins}}};
  write_file(folder / "run.yaml", on_device("sim32:7"));
  const Ended beyond = run_moert({"run", "run.yaml"}, with);
  EXPECT_EQ(beyond.code, 5) << beyond.command << "\n" << beyond.err;
  EXPECT_TRUE(contains(beyond.err, "no device for 'sim32:7'")) << beyond.err;
  write_file(folder / "run.yaml", on_device("sm32:0"));
  EXPECT_EQ(run_moert({"run", "run.yaml"}, with).code, 5) << "letters of a kind are no name";
  write_file(folder / "run.yaml", on_device("sim33:0"));
  EXPECT_EQ(run_moert({"run", "run.yaml"}, with).code, 5);
}

}  // namespace
}  // namespace moert::testing
