// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace moert::tool {
namespace fs = std::filesystem;

namespace {

// "model name : x" of the first processor.
std::string processor_field(const std::string& field) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(field))
      return line.size() > line.find(':') + 2 ? line.substr(line.find(':') + 2) : "";
  return {};
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "32768K"
uint64_t cache_size(const std::string& text) {
  std::istringstream words(text);
  uint64_t size = 0;
  char unit = ' ';
  words >> size >> unit;
  return size << (unit == 'K' ? 10u : unit == 'M' ? 20u : unit == 'G' ? 30u : 0u);
}

}  // namespace

std::string processor_name() { return processor_field("model name"); }

std::string processor_extensions() {
  const std::string flags = " " + processor_field("flags") + " ";
  std::string found;
  for (const char* flag : {"avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512_bf16",
                           "avx512_vnni", "amx_tile", "amx_bf16"})
    if (flags.find(" " + std::string(flag) + " ") != std::string::npos)
      found += (found.empty() ? "" : " ") + std::string(flag);
  return found;
}

uint64_t last_level_cache_bytes() {
  constexpr uint64_t kUnknown = uint64_t{32} << 20u;
  uint64_t bytes = 0;
  int highest = 0;
  std::set<std::string> seen;  // lists of processors that share a cache
  std::error_code ignored;
  for (const auto& processor : fs::directory_iterator("/sys/devices/system/cpu", ignored))
    for (const auto& cache : fs::directory_iterator(processor.path() / "cache", ignored)) {
      const std::string level = first_line(cache.path() / "level");
      const std::string type = first_line(cache.path() / "type");
      if (level.size() != 1 || type == "Instruction") continue;
      const std::string shared = first_line(cache.path() / "shared_cpu_list");
      if (level[0] - '0' > highest) {
        highest = level[0] - '0';
        bytes = 0;
        seen.clear();
      }
      if (level[0] - '0' == highest && seen.insert(shared).second)
        bytes += cache_size(first_line(cache.path() / "size"));
    }
  return bytes == 0 ? kUnknown : bytes;
}

uint64_t available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t kilobytes = 0;
    words >> name >> kilobytes;
    if (name == "MemAvailable:") return kilobytes * 1024;
  }
  return 0;
}

}  // namespace moert::tool
