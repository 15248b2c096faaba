// Backends without a device: what the list says, what a run that names them says, and that `auto` goes on.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "program.hpp"

namespace moert::testing {
namespace {

// Where there are GPUs, these hide them: both drivers take a number that no device has for "none".
const std::map<std::string, std::string> kHidden = {
    {"CUDA_VISIBLE_DEVICES", "-1"}, {"HIP_VISIBLE_DEVICES", "-1"}, {"ROCR_VISIBLE_DEVICES", "-1"}};

// The entry of `moert plugins list --json` for devices that are called so.
Json backend_of(const Json& list, const std::string& word) {
  for (const Json& backend : list.at("backends"))
    if (backend.at("word") == word) return backend;
  return {};
}

TEST(Devices, TheProcessorIsListed) {
  const Json list = run_moert({"plugins", "list", "--json"}, {.environment = kHidden}).json();
  const Json cpu = backend_of(list, "cpu");
  ASSERT_FALSE(cpu.is_null()) << list;
  EXPECT_EQ(cpu.at("feature"), "cpu.device");
  EXPECT_EQ(cpu.at("reason"), "");
  ASSERT_EQ(cpu.at("devices").size(), 1u);
  const Json& device = cpu.at("devices").at(0);
  EXPECT_EQ(device.at("device"), "cpu:0");
  EXPECT_FALSE(device.at("name").get<std::string>().empty());
  EXPECT_FALSE(device.at("architecture").get<std::string>().empty());
  EXPECT_GT(device.at("memory_bytes").get<uint64_t>(), 0u);
  const Ended text = run_moert({"plugins", "list"}, {.environment = kHidden});
  EXPECT_TRUE(contains(text.out, "cpu:0")) << MOERT_SHOW(text);
  EXPECT_TRUE(contains(text.out, device.at("architecture").get<std::string>())) << MOERT_SHOW(text);
}

// Two backends may have devices of one kind.
TEST(Devices, EachIsCalledAsItsOwnBackendSays) {
  const std::string plugins = MOERT_BINARY_DIR "/tests/plugins/";
  const Ended ended = run_moert(
      {"env", "--json", "--plugin-path", plugins + "far", "--plugin-path", plugins + "afar"},
      {.environment = kHidden});
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  const Json devices = ended.json().at("devices");
  std::map<std::string, std::string> names;
  for (const Json& device : devices)
    names[device.at("from").get<std::string>()] = device.at("device").get<std::string>();
  EXPECT_EQ(names["far.device"], "far:0") << MOERT_SHOW(ended);
  EXPECT_EQ(names["afar.device"], "afar:0") << MOERT_SHOW(ended);
}

TEST(Devices, ABackendWithoutOneSaysWhyInOneLine) {
  if (gpu_plugins().empty()) GTEST_SKIP() << "neither cuda nor hip is built";
  const Json list = run_moert({"plugins", "list", "--json"}, {.environment = kHidden}).json();
  const Ended text = run_moert({"plugins", "list"}, {.environment = kHidden});
  for (const std::string& word : gpu_plugins()) {
    const Json backend = backend_of(list, word);
    ASSERT_FALSE(backend.is_null()) << word << ": " << list;
    EXPECT_EQ(backend.at("feature"), word + ".device");
    EXPECT_TRUE(backend.at("devices").empty()) << backend;
    const std::string reason = backend.at("reason").get<std::string>();
    EXPECT_TRUE(contains(reason, word == "cuda" ? "NVIDIA driver" : "AMD GPU driver")) << reason;
    EXPECT_TRUE(contains(text.out, "\n" + word + ": no device: " + reason + "\n"))
        << MOERT_SHOW(text);
  }
}

TEST(Devices, ADeviceThatIsNamedIsNotReplaced) {
  if (gpu_plugins().empty()) GTEST_SKIP() << "neither cuda nor hip is built";
  const Json list = run_moert({"plugins", "list", "--json"}, {.environment = kHidden}).json();
  for (const std::string& word : gpu_plugins()) {
    const Ended ended = run_moert({"run", run_file("olmoe-f32"), "--device", word + ":0"},
                                  {.environment = kHidden});
    EXPECT_EQ(ended.code, 5) << MOERT_SHOW(ended);
    const std::string reason = backend_of(list, word).at("reason").get<std::string>();
    EXPECT_TRUE(contains(ended.err, word + ".device: " + reason)) << MOERT_SHOW(ended);
  }
}

// However long its word is, a plugin might have it: that is no slip of the pen.
TEST(Devices, OneThatNoPluginHasIsAskedForRightly) {
  for (const char* device : {"tpu:0", "tpu", "metal:0", "sim32:0", "my_npu2:3"}) {
    const Ended ended = run_moert({"run", run_file("olmoe-f32"), "--device", device});
    EXPECT_EQ(ended.code, 5) << MOERT_SHOW(ended);
    EXPECT_TRUE(contains(ended.err, "no plugin offers such a device")) << MOERT_SHOW(ended);
  }
}

TEST(Devices, WhatIsNoNameOfOneIsAMistake) {
  for (const std::string& device :
       {std::string("cuda0"), std::string("cuda:"), std::string("cuda:x"), std::string("metal:-1"),
        std::string(":0"), std::string("a b:0"), std::string(33, 'a') + ":0"}) {
    const Ended ended = run_moert({"bench", "experts", "--shape", "64x32x8x2", "--device", device});
    EXPECT_EQ(ended.code, 2) << MOERT_SHOW(ended);
    EXPECT_TRUE(contains(ended.err, "'" + device + "' is no device")) << MOERT_SHOW(ended);
  }
}

TEST(Devices, AutoGoesOnToTheProcessor) {
  const Ended ended = run_moert({"run", run_file("olmoe-f32"), "--device", "auto", "--json"},
                                {.environment = kHidden});
  ASSERT_EQ(ended.code, 0) << MOERT_SHOW(ended);
  EXPECT_TRUE(contains(ended.out, "cpu:0")) << MOERT_SHOW(ended);
}

}  // namespace
}  // namespace moert::testing
