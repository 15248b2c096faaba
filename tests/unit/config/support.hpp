// What the tests of this room share: temporary folders, and saying what an error must tell.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <moert/error.hpp>

#include "config/config.hpp"

namespace moert::config::test {

namespace fs = std::filesystem;

// A folder that goes away with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (fs::temp_directory_path() / "moert-config-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = fs::canonical(name);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }
  fs::path write(const fs::path& name, const std::string& text) const {
    const fs::path file = path_ / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }

 private:
  fs::path path_;
};

inline fs::path source_folder() { return MOERT_SOURCE_DIR; }

// The families that come along.
inline const Families& shipped() {
  static const Families families = Families::load({source_folder() / "configs/families"});
  return families;
}

inline std::string read_file(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot read " + file.string());
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Runs `action`, which must throw an Error with three lines that hold each of `parts`.
inline void expect_error(Fault fault, const std::vector<std::string>& parts,
                         const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(static_cast<int>(error.fault()), static_cast<int>(fault)) << text;
    EXPECT_FALSE(error.problem().empty() || error.place().empty() || error.remedy().empty())
        << text;
    for (const std::string& part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << "lacks '" << part << "':\n" << text;
    return;
  }
  ADD_FAILURE() << "nothing was thrown; expected '" << (parts.empty() ? "" : parts.front()) << "'";
}

// Names of parameterised tests.
template <class Case>
std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

}  // namespace moert::config::test
