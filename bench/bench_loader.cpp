// Scanning and opening all plugins of the build tree. Wanted: less than 100 ms together.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "loader/elf_file.hpp"
#include "loader/loader.hpp"

namespace {

namespace fs = std::filesystem;
using namespace moert;

// The plugins that the program of this build tree would find.
std::vector<fs::path> plugin_files() {
  std::vector<fs::path> files;
  for (const loader::SearchEntry& entry : loader::search_path({})) {
    std::error_code none;
    if (entry.origin != "installed") continue;
    for (const auto& file : fs::directory_iterator(entry.path, none)) files.push_back(file.path());
  }
  return files;
}

// Copies of the plugins in a folder of their own: what is mapped already cannot be opened again, so a
// measurement needs files that the process has not seen.
class FreshCopies {
 public:
  explicit FreshCopies(const std::vector<fs::path>& files) {
    std::string name = (fs::temp_directory_path() / "moert-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) return;
    folder_ = name;
    for (const fs::path& file : files) fs::copy_file(file, folder_ / file.filename());
  }
  FreshCopies(const FreshCopies&) = delete;
  FreshCopies& operator=(const FreshCopies&) = delete;
  ~FreshCopies() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  const fs::path& folder() const { return folder_; }

 private:
  fs::path folder_;
};

void scan(benchmark::State& state) {
  const std::vector<fs::path> files = plugin_files();
  if (files.empty()) state.SkipWithError("no plugins: build the target moert_plugins");
  for (auto _ : state)
    for (const fs::path& file : files) benchmark::DoNotOptimize(loader::read_elf(file));
  state.counters["plugins"] = static_cast<double>(files.size());
}

void scan_and_open(benchmark::State& state) {
  const std::vector<fs::path> files = plugin_files();
  if (files.empty()) state.SkipWithError("no plugins: build the target moert_plugins");
  size_t loaded = 0;
  for (auto _ : state) {
    const FreshCopies copies(files);
    loader::Options options;
    options.search.push_back({copies.folder(), "bench"});
    const auto start = std::chrono::steady_clock::now();
    loaded = loader::load(options, ignore_log).plugins.size();
    state.SetIterationTime(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  state.counters["plugins"] = static_cast<double>(loaded);
}

}  // namespace

BENCHMARK(scan)->Unit(benchmark::kMillisecond);
// Libraries stay mapped, so the number of rounds is bounded.
BENCHMARK(scan_and_open)->Unit(benchmark::kMillisecond)->Iterations(50)->UseManualTime();

BENCHMARK_MAIN();
