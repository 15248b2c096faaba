// Where plugins are looked for.
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

#include <algorithm>
#include <string_view>

#include <moert/error.hpp>

#include "loader/loader.hpp"
#include "loader/search.hpp"

namespace moert::loader {
namespace fs = std::filesystem;

namespace {

// Below every folder; the number is the ABI major.
constexpr const char* kPlugins = "moert/plugins-1";

// The file that this code was loaded from; empty if the system does not say.
fs::path running_object() {
  std::error_code none;
  Dl_info info{};
  link_map* map = nullptr;
  void* here = reinterpret_cast<void*>(&running_object);
  if (::dladdr1(here, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 ||
      map == nullptr)
    return {};
  // The program itself has no name there, and its argv[0] may be relative to a folder long left.
  const fs::path file = map->l_name[0] == '\0' ? fs::path("/proc/self/exe") : fs::path(map->l_name);
  return fs::canonical(file, none);
}

void add(std::vector<SearchEntry>& entries, const fs::path& path, const char* origin) {
  const auto same = [&](const SearchEntry& entry) { return entry.path == path; };
  if (std::none_of(entries.begin(), entries.end(), same)) entries.push_back({path, origin});
}

void add_flags(std::vector<SearchEntry>& entries, const std::vector<std::string>& flags) {
  for (const std::string& flag : flags) {
    std::error_code error;
    const fs::path path = fs::canonical(flag, error);
    if (error) {
      throw Error(Fault::usage,
                  "no such plugin folder or file: '" + flag + "' (" + error.message() + ")",
                  "--plugin-path", "give an existing folder or libmoert_<name>.so file");
    }
    // A file keeps its own name, even where that is a link: names of plugins are compared with it.
    const fs::path file = fs::absolute(flag);
    add(entries,
        fs::is_directory(path) ? path : fs::canonical(file.parent_path()) / file.filename(),
        "--plugin-path");
  }
}

void add_environment(std::vector<SearchEntry>& entries, const LogSink& log) {
  const char* value = ::secure_getenv("MOERT_PLUGIN_PATH");
  std::string_view rest = value == nullptr ? "" : value;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const fs::path path = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (path.is_absolute())
      add(entries, path.lexically_normal(), "MOERT_PLUGIN_PATH");
    else if (!path.empty())
      log(LogLevel::warn, "loader",
          "MOERT_PLUGIN_PATH: '" + path.string() +
              "' is ignored: only absolute paths are searched");
  }
}

void add_user(std::vector<SearchEntry>& entries) {
  const char* data = ::secure_getenv("XDG_DATA_HOME");
  if (data != nullptr && fs::path(data).is_absolute())
    return add(entries, fs::path(data) / kPlugins, "user");
  const char* home = ::secure_getenv("HOME");
  if (home != nullptr && fs::path(home).is_absolute())
    add(entries, fs::path(home) / ".local/share" / kPlugins, "user");
}

void add_installed(std::vector<SearchEntry>& entries) {
  for (const fs::path& folder : installed_folders(running_object()))
    add(entries, folder, kInstalled);
}

}  // namespace

std::vector<fs::path> installed_folders(const fs::path& object) {
  const fs::path folder = object.parent_path();
  if (!folder.is_absolute()) return {};
  if (folder.filename() != "bin") return {folder / kPlugins};
  const fs::path prefix = folder.parent_path();
  const std::vector<fs::path> both = {(prefix / MOERT_LIBDIR / kPlugins).lexically_normal(),
                                      prefix / "lib" / kPlugins};
  return both[0] == both[1] ? std::vector<fs::path>{both[0]} : both;
}

std::vector<SearchEntry> search_path(const std::vector<std::string>& flags, const LogSink& log) {
  std::vector<SearchEntry> entries;
  add_flags(entries, flags);
  add_environment(entries, log);
  add_user(entries);
  add_installed(entries);
  return entries;
}

}  // namespace moert::loader
