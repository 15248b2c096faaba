// SPDX-License-Identifier: Apache-2.0
#include "util/folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <moert/error.hpp>

namespace moert {
namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse(const fs::path& target, const std::string& problem) {
  throw Error(Fault::usage, problem, target.string(), "choose another folder for the output");
}

// Without a slash at the end, which would hide the name, and without links on the way: "link/.." is not
// the folder that the link stands in.
fs::path named(const fs::path& target) {
  const fs::path path = target.has_filename() ? target : target.parent_path();
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(fs::absolute(path).parent_path(), error);
  return error ? path.lexically_normal() : folder / path.filename();
}

void sync_folder(const fs::path& folder) {
  const int file =
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  ::fsync(file);
  ::close(file);
}

}  // namespace

AtomicFolder::AtomicFolder(const fs::path& target) : target_(named(target)) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(target_, error);
  if (target_.filename().empty() || target_.filename() == "." || target_.filename() == "..")
    refuse(target, "a folder without a name of its own cannot be written");
  if (fs::exists(status) && !fs::is_directory(status)) refuse(target, "there is a file already");
  if (fs::exists(status) && !fs::is_empty(target_, error))
    refuse(target, error ? "the folder cannot be read: " + error.message()
                         : "there is a folder already, and it is not empty");
  for (fs::path folder = target_.parent_path(); !folder.empty() && !fs::exists(folder, error);
       folder = folder.parent_path())
    made_.push_back(folder);
  std::error_code unmade;  // it matters only if the folder then cannot be made
  if (!made_.empty()) fs::create_directories(target_.parent_path(), unmade);
  std::string name =
      (target_.parent_path() / ("." + target_.filename().string() + ".XXXXXX")).string();
  if (::mkdtemp(name.data()) == nullptr) {
    const int reason = errno;
    for (const fs::path& folder : made_) ::rmdir(folder.c_str());
    refuse(target,
           "cannot write there: " + (unmade ? "the folder " + target_.parent_path().string() +
                                                  " cannot be made: " + unmade.message()
                                            : std::strerror(reason)));
  }
  temporary_ = name;
}

AtomicFolder::~AtomicFolder() {
  if (temporary_.empty()) return;
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
  for (const fs::path& folder : made_) ::rmdir(folder.c_str());  // one that others use by now stays
}

void AtomicFolder::require_room(uint64_t bytes) const {
  std::error_code error;
  const fs::space_info space = fs::space(temporary_, error);
  if (error || space.available >= bytes) return;
  throw Error(Fault::device,
              "the disk has " + std::to_string(space.available) + " bytes of room, and " +
                  std::to_string(bytes) + " would be written",
              target_.string(), "free some space or choose another folder");
}

void AtomicFolder::commit() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  sync_folder(temporary_);
  if (::chmod(temporary_.c_str(), 0777 & ~mask) != 0 ||
      ::rename(temporary_.c_str(), target_.c_str()) != 0)
    throw Error(Fault::device, std::string("cannot rename the folder: ") + std::strerror(errno),
                target_.string(), "choose another folder for the output");
  temporary_.clear();
  sync_folder(target_.parent_path());
}

}  // namespace moert
