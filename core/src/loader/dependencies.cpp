// Follows DT_NEEDED as the dynamic linker does, without opening anything.
// SPDX-License-Identifier: Apache-2.0
#include "loader/dependencies.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

#include <moert/error.hpp>

#include "util/file.hpp"
#include "util/nearest.hpp"

namespace moert::loader {
namespace fs = std::filesystem;

namespace {

constexpr size_t kMostFiles = 256;  // a chain of dependencies longer than this is given up

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// LD_LIBRARY_PATH, the program's own run path and the system's folders, as the linker knows them.
std::vector<std::string> linker_folders() {
  std::vector<std::string> folders;
  void* self = ::dlopen(nullptr, RTLD_LAZY);
  Dl_serinfo size{};
  if (self == nullptr || ::dlinfo(self, RTLD_DI_SERINFOSIZE, &size) != 0) return folders;
  std::vector<std::max_align_t> memory(size.dls_size / sizeof(std::max_align_t) + 1);
  auto* info = reinterpret_cast<Dl_serinfo*>(memory.data());
  if (::dlinfo(self, RTLD_DI_SERINFOSIZE, info) == 0 && ::dlinfo(self, RTLD_DI_SERINFO, info) == 0)
    for (unsigned i = 0; i < info->dls_cnt; ++i)
      folders.emplace_back(info->dls_serpath[i].dls_name);
  return folders;
}

std::vector<std::string> run_path_folders(const fs::path& path, const ElfFile& file) {
  std::vector<std::string> folders;
  std::string rest = file.run_path;
  replace_all(rest, "${ORIGIN}", "$ORIGIN");
  replace_all(rest, "$ORIGIN", path.parent_path().string());
  for (size_t at = 0; at < rest.size();) {
    const size_t end = std::min(rest.find(':', at), rest.size());
    if (end > at) folders.push_back(rest.substr(at, end - at));
    at = end + 1;
  }
  return folders;
}

class Walk {
 public:
  Walk() : system_(linker_folders()) {
    try {
      cache_ = read_text_file("/etc/ld.so.cache");
    } catch (const Error&) {  // a system without one
    }
  }

  void visit(const fs::path& path, const ElfFile& file) {
    std::vector<std::string> folders = run_path_folders(path, file);
    folders.insert(folders.end(), system_.begin(), system_.end());
    for (const std::string& name : file.needed) {
      if (!seen_.insert(name).second || seen_.size() > kMostFiles || is_loaded(name)) continue;
      const fs::path found = find(name, folders);
      if (!found.empty())
        follow(found);
      else if (!in_cache(name))
        problems_.push_back(name + " is missing, needed by " + path.string() +
                            " (looked in: " + joined(folders) + ")");
    }
  }
  std::string text() const { return joined(problems_, "; "); }

 private:
  // A library of that name that is already in the process serves without being looked for.
  static bool is_loaded(const std::string& name) {
    void* handle = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (handle != nullptr) ::dlclose(handle);
    return handle != nullptr;
  }
  static fs::path find(const std::string& name, const std::vector<std::string>& folders) {
    std::error_code none;
    if (name.find('/') != std::string::npos)
      return fs::exists(name, none) ? fs::path(name) : fs::path();
    for (const std::string& folder : folders)
      if (fs::exists(fs::path(folder) / name, none)) return fs::path(folder) / name;
    return {};
  }
  // The cache holds paths as NUL-terminated texts.
  bool in_cache(const std::string& name) const {
    return cache_.find("/" + name + std::string(1, '\0')) != std::string::npos;
  }
  void follow(const fs::path& path) {
    try {
      visit(path, read_elf(path));
    } catch (const Error& e) {
      problems_.push_back(path.string() + " is unusable: " + e.problem());
    }
  }

  std::vector<std::string> system_;
  std::string cache_;
  std::set<std::string> seen_;
  std::vector<std::string> problems_;
};

}  // namespace

std::string missing_libraries(const fs::path& path, const ElfFile& file) {
  Walk walk;
  walk.visit(path, file);
  return walk.text();
}

}  // namespace moert::loader
