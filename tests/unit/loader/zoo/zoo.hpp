// Shared by the tests of misbehaving plugins: folders, loading, and the process's mappings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "loader/loader.hpp"

namespace moert::loader::test {

namespace fs = std::filesystem;

inline fs::path built(const std::string& name) {
  return fs::path(ZOO_DIR) / name / ("libmoert_zoo_" + name + ".so");
}

// A folder of this user's, gone at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "moert-zoo-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw std::runtime_error("cannot make a folder at " + name);
    path_ = fs::canonical(name);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

inline std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline bool is_mapped(const fs::path& path) {
  return bytes_of("/proc/self/maps").find(path.string()) != std::string::npos;
}

inline Options options_for(const std::vector<fs::path>& paths) {
  Options options;
  for (const fs::path& path : paths) options.search.push_back({path, "test"});
  return options;
}
inline Result load_all(const std::vector<fs::path>& paths) {
  return load(options_for(paths), ignore_log);
}

inline const FileReport* report_of(const Result& result, const fs::path& path) {
  const auto found = std::find_if(result.reports.begin(), result.reports.end(),
                                  [&](const FileReport& report) { return report.path == path; });
  return found == result.reports.end() ? nullptr : &*found;
}
inline const Plugin* plugin_of(const Result& result, const std::string& name) {
  const auto found =
      std::find_if(result.plugins.begin(), result.plugins.end(),
                   [&](const Plugin& plugin) { return name == plugin.descriptor.name; });
  return found == result.plugins.end() ? nullptr : &*found;
}

// `path` ended as `outcome` for a reason that contains `detail`, in one line.
inline void expect_outcome(const Result& result, const fs::path& path, Outcome outcome,
                           const std::string& detail) {
  const FileReport* report = report_of(result, path);
  ASSERT_NE(report, nullptr) << path << " was not reported";
  EXPECT_STREQ(outcome_name(report->outcome), outcome_name(outcome)) << report->detail;
  EXPECT_NE(report->detail.find(detail), std::string::npos)
      << "detail: " << report->detail << "\nwanted: " << detail;
  EXPECT_EQ(report->detail.find('\n'), std::string::npos) << report->detail;
  EXPECT_EQ(report->detail.empty(), outcome == Outcome::loaded);
}

// The well-behaved C++ plugin was opened all the same.
inline void expect_good_neighbour(const Result& result) {
  const Plugin* good = plugin_of(result, "zoo_cpp");
  ASSERT_NE(good, nullptr) << "the good plugin beside it was not loaded";
  EXPECT_STREQ(good->descriptor.version, "1.2.3");
}

}  // namespace moert::loader::test
