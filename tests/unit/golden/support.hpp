// The folders of tests/data that have golden numbers, and a run of one against them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <moert/error.hpp>

#include "config/config.hpp"
#include "runtime/run.hpp"
#include "runtime/session.hpp"
#include "weights/safetensors.hpp"

namespace moert::golden {

namespace fs = std::filesystem;

inline fs::path data_folder() { return fs::path(MOERT_SOURCE_DIR) / "tests/data"; }
inline fs::path golden_file(const std::string& folder) {
  return data_folder() / folder / "golden.safetensors";
}

inline const std::vector<std::string>& folders() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(data_folder()))
      if (fs::exists(entry.path() / "golden.safetensors"))
        found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }();
  return names;
}

inline const config::Families& families() {
  static const config::Families it =
      config::Families::load({fs::path(MOERT_SOURCE_DIR) / "configs/families"});
  return it;
}

inline config::FamilyInfo family_info(const std::string& name) {
  for (config::FamilyInfo& info : families().list())
    if (info.name == name) return info;
  ADD_FAILURE() << "no family '" << name << "'";
  return {};
}

// Who computed a folder's numbers, in the words of a family's `tested`.
inline std::string origin_of(const std::string& folder) {
  return weights::Checkpoint(golden_file(folder)).metadata().contains("reference") ? "reference"
                                                                                   : "transformers";
}

inline runtime::Session& session(int32_t threads) {
  const auto make = [](int32_t n) {
    runtime::SessionOptions options;
    options.threads = n;
    return options;
  };
  static runtime::Session one(make(1)), two(make(2));
  return threads == 1 ? one : two;
}

// A run of a folder's rows by one candidate for every part that it offers, without anything to compare.
inline spec::Run plain_run(const std::string& folder, const std::string& candidate = "cpu.ref") {
  spec::Run run;
  run.name = folder;
  run.checkpoint = data_folder() / folder;
  run.device = "cpu";
  for (const char* word : {"routed_experts", "router", "shared_experts"})
    run.layers[word] = candidate;
  run.hidden_states = golden_file(folder);
  return run;
}

// The oracle on its own numbers; results go to `output`.
inline runtime::RunReport run(const std::string& folder, const fs::path& output = {},
                              int32_t threads = 2) {
  spec::Run run = plain_run(folder);
  run.expect.emplace();
  run.expect->file = run.hidden_states;
  run.output = output;
  run.threads = threads;
  return runtime::run(session(threads), families(), run);
}

// A folder as gtest takes names.
inline std::string folder_name(const testing::TestParamInfo<std::string>& folder) {
  std::string name = folder.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

inline std::vector<std::byte> bytes_of(const fs::path& path) {
  const MappedFile map(path);
  return {map.bytes().begin(), map.bytes().end()};
}

// What repeats the test that is running.
inline std::string again() {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  return std::string("\nagain: ") + MOERT_BINARY_DIR + "/bin/unit_golden --gtest_filter='" +
         test->test_suite_name() + "." + test->name() + "'";
}

// An output file of this process, gone with the object.
class Output {
 public:
  explicit Output(const std::string& name)
      : path_(fs::path(testing::TempDir()) /
              ("moert_golden_" + std::to_string(::getpid()) + "_" + name + ".safetensors")) {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace moert::golden
