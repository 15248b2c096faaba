// SPDX-License-Identifier: Apache-2.0
#include "capturers/surroundings.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <stdexcept>

namespace moert::capture::testing {

namespace fs = std::filesystem;

TestFolder::TestFolder(bool shared_memory) {
  const fs::path base = shared_memory && fs::is_directory("/dev/shm") ? fs::path("/dev/shm")
                                                                      : fs::temp_directory_path();
  std::string name = (base / "moert_capturers_XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder " + name);
  path_ = name;
}

std::vector<std::string> TestFolder::names() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path_))
    names.push_back(entry.path().filename().string());
  return names;
}

TestFolder::~TestFolder() {
  for (const std::string& name : names()) ADD_FAILURE() << name << " was left in " << path_;
  fs::remove_all(path_);
}

SmallFileSystem::SmallFileSystem(const TestFolder& on, uint64_t bytes)
    : path_(on.path()),
      mounted_(::mount("tmpfs", path_.c_str(), "tmpfs", 0,
                       ("size=" + std::to_string(bytes)).c_str()) == 0) {}

SmallFileSystem::~SmallFileSystem() {
  if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
}

int SmallFileSystem::resize(uint64_t bytes) {
  const std::string size = "size=" + std::to_string(bytes);
  return ::mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT, size.c_str()) == 0 ? 0 : errno;
}

FileSizeLimit::FileSizeLimit(uint64_t bytes) {
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  before_ = limit.rlim_cur;
  limit.rlim_cur = bytes;
  if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) throw std::runtime_error("no limit of file size");
}

FileSizeLimit::~FileSizeLimit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = before_;
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

Child::Child(const std::function<int()>& body) : pid_(::fork()) {
  if (pid_ < 0) throw std::runtime_error("no child process");
  if (pid_ != 0) return;
  int status = 99;
  try {
    status = body();
  } catch (const std::exception& e) {
    ::dprintf(2, "child: %s\n", e.what());
  }
  ::_exit(status);  // the test's own ends are its parent's business
}

void Child::kill() {
  ::kill(pid_, SIGKILL);
  wait();
}

int Child::wait() {
  int status = 0;
  if (status_ < 0 && ::waitpid(pid_, &status, 0) == pid_)
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  return status_;
}

bool Child::running() {
  int status = 0;
  if (status_ >= 0) return false;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return true;
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  return false;
}

Child::~Child() {
  if (running()) kill();
}

void* shared_pages(size_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::runtime_error("no shared memory");
  return at;
}

}  // namespace moert::capture::testing
