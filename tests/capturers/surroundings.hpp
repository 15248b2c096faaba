// What surrounds a capturer: folders, limits, file systems that are full, child processes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace moert::capture::testing {

// A folder of its own that must be empty at the end, and is removed.
class TestFolder {
 public:
  // In /dev/shm, or in the temporary folder.
  explicit TestFolder(bool shared_memory = false);
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder();
  std::string path() const { return path_.string(); }
  std::vector<std::string> names() const;  // of the files in it

 private:
  std::filesystem::path path_;
};

// A file system of `bytes` on the folder, as long as it lives; mounted() is false where that is not allowed.
class SmallFileSystem {
 public:
  SmallFileSystem(const TestFolder& on, uint64_t bytes);
  SmallFileSystem(const SmallFileSystem&) = delete;
  SmallFileSystem& operator=(const SmallFileSystem&) = delete;
  ~SmallFileSystem();
  bool mounted() const { return mounted_; }
  int resize(uint64_t bytes);  // 0, or errno

 private:
  std::string path_;
  bool mounted_;
};

// The process's limit of a file's size, as long as it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(uint64_t bytes);
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit();

 private:
  uint64_t before_;
};

// Another process. It ends with `body`, whose result is its exit status; what is still alive at the end of
// this object is killed.
class Child {
 public:
  explicit Child(const std::function<int()>& body);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();
  pid_t pid() const { return pid_; }
  void kill();     // SIGKILL, and waits
  int wait();      // exit status; 1000 + signal if it was killed
  bool running();  // has not ended

 private:
  pid_t pid_;
  int status_ = -1;
};

// Memory that children share with their parent. Zeroed.
void* shared_pages(size_t bytes);
template <class T>
struct Shared {
  Shared() : value(*static_cast<T*>(shared_pages(sizeof(T)))) {}
  T& value;  // until the process ends
};

}  // namespace moert::capture::testing
