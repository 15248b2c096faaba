// Runs the built program and keeps what it said.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace moert::testing {

using Json = nlohmann::json;

struct Ended {
  int code = -1;   // exit code; -1 if a signal ended it or it took too long
  int signal = 0;  // that ended it
  std::string out, err;
  std::string command;  // to paste

  Json json() const { return Json::parse(out); }  // throws if stdout is not one document
};

// How to start the program. The environment holds nothing of the tester's own but what is named here.
struct Start {
  std::filesystem::path folder{};   // working directory; empty: the test's own
  std::filesystem::path program{};  // empty: the built one
  std::map<std::string, std::string> environment{};
  std::string shell{};          // e.g. ">&-": appended in `sh -c`; stdout is then not collected
  int interrupt_after_ms = -1;  // sends SIGINT
};

Ended run_moert(const std::vector<std::string>& arguments, const Start& start = {});

// A folder that is removed at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

std::vector<std::string> gpu_plugins();  // those that are built: "cuda", "hip"
std::filesystem::path source_folder();
std::filesystem::path data_folder(const std::string& name);  // tests/data/NAME
std::string run_file(const std::string& name);               // configs/runs/NAME.yaml
std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, const std::string& text);
// Every file below `folder`, relative to it.
std::vector<std::string> files_below(const std::filesystem::path& folder);
// A Run over `checkpoint` with its golden file; `more` are further lines of spec.
std::string run_yaml(const std::filesystem::path& checkpoint, const std::string& more = {});
bool contains(const std::string& text, const std::string& part);

}  // namespace moert::testing

// Shown where an expectation about a finished run fails.
#define MOERT_SHOW(ended)                                                 \
  "\n$ " << (ended).command << "\nexit " << (ended).code << "\nstdout:\n" \
         << (ended).out << "\nstderr:\n"                                  \
         << (ended).err
