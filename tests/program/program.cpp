// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace moert::testing {
namespace fs = std::filesystem;

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLongest = std::chrono::seconds(120);

struct Pipe {
  Pipe() {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  }
  ~Pipe() {
    for (const int end : ends)
      if (end >= 0) ::close(end);
  }
  void close_write() { ::close(std::exchange(ends[1], -1)); }
  std::array<int, 2> ends{-1, -1};
};

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

std::vector<std::string> environment_of(const Start& start) {
  std::map<std::string, std::string> all = {
      {"PATH", "/usr/bin:/bin"}, {"HOME", "/nonexistent"}, {"LC_ALL", "C"}};
  for (const char* kept : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TMPDIR"})
    if (const char* value = ::getenv(kept)) all[kept] = value;
  for (const auto& [name, value] : start.environment) all[name] = value;
  std::vector<std::string> list;
  for (const auto& [name, value] : all) list.push_back(name + "=" + value);
  return list;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

// Reads both pipes until the program has closed them, or time is up.
void collect(Pipe& out, Pipe& err, pid_t child, const Start& start, Ended& ended) {
  const Clock::time_point begin = Clock::now();
  bool interrupted = start.interrupt_after_ms < 0;
  std::array<pollfd, 2> files = {pollfd{out.ends[0], POLLIN, 0}, pollfd{err.ends[0], POLLIN, 0}};
  std::array<std::string*, 2> texts = {&ended.out, &ended.err};
  while (files[0].fd >= 0 || files[1].fd >= 0) {
    ::poll(files.data(), files.size(), 20);
    const auto elapsed = Clock::now() - begin;
    if (!interrupted && elapsed >= std::chrono::milliseconds(start.interrupt_after_ms)) {
      interrupted = true;
      ::kill(child, SIGINT);
    }
    if (elapsed > kLongest) {
      ::kill(child, SIGKILL);
      ended.err += "\n(the test ended it: it took too long)\n";
      return;
    }
    for (size_t i = 0; i < files.size(); ++i) {
      if (files[i].fd < 0 || files[i].revents == 0) continue;
      std::array<char, 65536> buffer{};
      const ssize_t n = ::read(files[i].fd, buffer.data(), buffer.size());
      if (n > 0)
        texts[i]->append(buffer.data(), static_cast<size_t>(n));
      else
        files[i].fd = -1;
    }
  }
}

[[noreturn]] void become(std::vector<std::string>& words, std::vector<std::string>& environment,
                         const Start& start, Pipe& out, Pipe& err) {
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(out.ends[1], STDOUT_FILENO);
  ::dup2(err.ends[1], STDERR_FILENO);
  if (!start.folder.empty() && ::chdir(start.folder.c_str()) != 0) ::_exit(127);
  ::execve(words.front().c_str(), pointers(words).data(), pointers(environment).data());
  ::_exit(127);
}

}  // namespace

Ended run_moert(const std::vector<std::string>& arguments, const Start& start) {
  std::vector<std::string> words = {start.program.empty() ? MOERT_PROGRAM : start.program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  Ended ended;
  for (const std::string& word : words)
    ended.command += (ended.command.empty() ? "" : " ") + quoted(word);
  ended.command += start.shell;
  if (!start.shell.empty()) words = {"/bin/sh", "-c", ended.command};
  std::vector<std::string> environment = environment_of(start);
  Pipe out, err;
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) become(words, environment, start, out, err);
  out.close_write();
  err.close_write();
  collect(out, err, child, start, ended);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status)) ended.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  return ended;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "moert-program-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  path_ = fs::canonical(name);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<std::string> gpu_plugins() {
  std::istringstream words(MOERT_GPU_PLUGINS);
  return {std::istream_iterator<std::string>(words), {}};
}

fs::path source_folder() { return MOERT_SOURCE_DIR; }
fs::path data_folder(const std::string& name) { return source_folder() / "tests/data" / name; }
std::string run_file(const std::string& name) {
  return (source_folder() / "configs/runs" / (name + ".yaml")).string();
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_file(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

std::vector<std::string> files_below(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (!entry.is_directory()) names.push_back(fs::relative(entry.path(), folder).string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string run_yaml(const fs::path& checkpoint, const std::string& more) {
  const std::string folder = checkpoint.string();
  return "apiVersion: moert/v1\nkind: Run\nmetadata: { name: test }\nspec:\n  model: { "
         "checkpoint: " +
         folder + " }\n  device: cpu\n  inputs: { hidden_states: " + folder +
         "/golden.safetensors }\n  expect: { file: " + folder + "/golden.safetensors }\n" + more;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace moert::testing
