// SPDX-License-Identifier: Apache-2.0
#include "util/file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <moert/error.hpp>

namespace moert {
namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail_input(const fs::path& path, const std::string& problem) {
  throw Error(Fault::input, problem, path.string(), "check the path and its permissions");
}

[[noreturn]] void fail_output(const fs::path& path, const std::string& problem) {
  throw Error(Fault::usage, problem, path.string(), "choose another path for the output");
}

const char* type_name(fs::file_type type) {
  switch (type) {
    case fs::file_type::directory: return "a folder";
    case fs::file_type::fifo: return "a fifo";
    case fs::file_type::socket: return "a socket";
    case fs::file_type::character:
    case fs::file_type::block: return "a device";
    default: return "of an unknown kind";
  }
}

// Opens a regular file for reading and tells its size; closes the descriptor at the end of the scope.
class Reader {
 public:
  explicit Reader(const fs::path& path)
      : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (file_ < 0) fail_input(path, std::string("cannot open the file: ") + std::strerror(errno));
    struct stat status{};
    if (::fstat(file_, &status) != 0 || !S_ISREG(status.st_mode)) {
      ::close(file_);
      fail_input(path, "not a regular file");
    }
    size_ = static_cast<size_t>(status.st_size);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { ::close(file_); }
  int file() const { return file_; }
  size_t size() const { return size_; }

 private:
  int file_;
  size_t size_ = 0;
};

}  // namespace

MappedFile::MappedFile(const fs::path& path) : path_(path) {
  const Reader reader(path);
  size_ = reader.size();
  if (size_ == 0) return;
  void* p = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, reader.file(), 0);
  if (p == MAP_FAILED && errno == ENOMEM)
    throw Error(Fault::device, "no memory to map " + std::to_string(size_) + " bytes",
                path.string(), "free memory, or raise the limit on address space");
  if (p == MAP_FAILED)
    fail_input(path, std::string("cannot map the file: ") + std::strerror(errno));
  data_ = static_cast<const std::byte*>(p);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release(uint64_t offset, uint64_t bytes) const {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t begin = (offset + page - 1) / page * page;
  const uint64_t end = (offset + bytes) / page * page;
  if (end > begin && end <= size_)
    ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

std::string read_text_file(const fs::path& path, uint64_t limit) {
  const Reader reader(path);
  if (reader.size() > limit)
    fail_input(path, "the file has " + std::to_string(reader.size()) + " bytes, at most " +
                         std::to_string(limit) + " are read");
  std::string text(reader.size(), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::read(reader.file(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_input(path, std::string("cannot read the file: ") + std::strerror(errno));
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  text.resize(done);
  return text;
}

fs::path output_target(const fs::path& path) {
  if (path.empty()) fail_output(path, "the path of an output is empty");
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status))
    fail_output(path, std::string("cannot write there: it is ") + type_name(status.type()));
  constexpr int kMostLinks = 40;
  fs::path target = path;
  for (int links = 0; fs::is_symlink(fs::symlink_status(target, ignored)); ++links) {
    if (links == kMostLinks) fail_output(path, "cannot write there: symbolic links without end");
    target = target.parent_path() / fs::read_symlink(target);
  }
  return target;
}

AtomicFile::AtomicFile(const fs::path& target) : asked_(target), target_(output_target(target)) {
  const std::string unmade = make_folders();
  std::string name = target_.string() + ".XXXXXX";
  file_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (file_ < 0) {
    const int error = errno;
    remove_made_folders();
    fail_output(asked_, "cannot write there: " + (unmade.empty() ? std::strerror(error) : unmade));
  }
  temporary_ = name;
}

AtomicFile::~AtomicFile() {
  unmap();
  if (file_ >= 0) ::close(file_);
  if (temporary_.empty()) return;
  ::unlink(temporary_.c_str());
  remove_made_folders();
}

// Why the first that could not be made was not. It matters only if the file then cannot be opened.
std::string AtomicFile::make_folders() {
  std::string why;
  std::error_code ignored;
  for (fs::path folder = target_.parent_path(); !folder.empty() && !fs::exists(folder, ignored);
       folder = folder.parent_path())
    made_.push_back(folder);
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) {
    std::error_code error;
    if (fs::create_directory(*folder, error)) continue;
    if (error && why.empty())
      why = "the folder " + folder->string() + " cannot be made: " + error.message();
    folder->clear();
  }
  return why;
}

void AtomicFile::remove_made_folders() {
  for (const fs::path& folder : made_)
    if (!folder.empty()) ::rmdir(folder.c_str());  // one that others use by now stays
}

void AtomicFile::write(const void* data, size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(file_, from, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("write");
    from += n;
    bytes -= static_cast<size_t>(n);
  }
}

std::span<std::byte> AtomicFile::map(size_t bytes) {
  do {
    errno = ::posix_fallocate(file_, 0, static_cast<off_t>(bytes));
  } while (errno == EINTR);
  if (errno != 0) fail("make room for");
  void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (p == MAP_FAILED) fail("map");
  mapped_ = {static_cast<std::byte*>(p), bytes};
  return mapped_;
}

void AtomicFile::unmap() {
  if (!mapped_.empty()) ::munmap(mapped_.data(), mapped_.size());
  mapped_ = {};
}

void AtomicFile::commit() {
  unmap();  // what was stored is the file's from then on, and goes to the disk with fsync
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if (::fchmod(file_, 0666 & ~mask) != 0 || ::fsync(file_) != 0) fail("sync");
  if (::close(std::exchange(file_, -1)) != 0) fail("close");
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("rename");
  temporary_.clear();
}

void AtomicFile::fail(const char* action) {
  throw Error(Fault::device, std::string("cannot ") + action + " the file: " + std::strerror(errno),
              asked_.string(), "free some space or choose another path; the old file was kept");
}

void write_text_file(const fs::path& target, std::string_view text) {
  AtomicFile file(target);
  file.write(text.data(), text.size());
  file.commit();
}

}  // namespace moert
