// SPDX-License-Identifier: Apache-2.0
#include "segment_owner.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

namespace moert::capture {
namespace {

struct flock write_lock(off_t byte) {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

bool try_lock(int fd, off_t byte) {
  struct flock lock = write_lock(byte);
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool is_locked(int fd, off_t byte) {
  struct flock lock = write_lock(byte);
  return ::fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool same_file(int fd, const std::string& path) {
  struct stat open{}, named{};
  return ::fstat(fd, &open) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

// key NUL text NUL key NUL ...
std::string facts_of(const moert_capture_spec_t& spec) {
  std::string facts;
  for (uint32_t i = 0; i < spec.n_facts; ++i)
    for (const char* text : {spec.facts[i].key, spec.facts[i].value})
      facts.append(text == nullptr ? "" : text).push_back('\0');
  return facts;
}

bool is_segment(int fd) {
  char magic[8] = {};
  return ::pread(fd, magic, sizeof magic, 0) == sizeof magic &&
         std::memcmp(magic, MOERT_CAPTURE_SEGMENT_MAGIC, sizeof magic) == 0;
}

Fd open_unnamed(const std::string& folder) {
  Fd fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd) throw os_error(errno, "cannot make a segment in folder '" + folder + "'");
  return fd;
}

}  // namespace

SegmentOwner::SegmentOwner(const std::string& folder, const moert_capture_spec_t& spec,
                           const CaptureRowLayout& layout, uint64_t bytes)
    : folder_(folder), row_bytes_(layout.bytes()), fd_(open_unnamed(folder)) {
  const std::string facts = facts_of(spec);
  const Sizes sizes = this->sizes(spec, facts.size(), bytes);
  if (!try_lock(fd_.get(), MOERT_CAPTURE_SEGMENT_OWNER_LOCK))
    throw os_error(errno, "cannot lock a file in folder '" + folder + "'");
  int error = 0;
  {
    const SizeLimitIsAnError guard;
    do error = ::posix_fallocate(fd_.get(), 0, static_cast<off_t>(sizes.total));
    while (error == EINTR);
  }
  if (error != 0)
    throw os_error(error, "no room for " + std::to_string(sizes.total) +
                              " bytes of captured rows in folder '" + folder +
                              "' (a smaller buffer_mb, or another folder)");
  void* map = ::mmap(nullptr, sizes.total, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (map == MAP_FAILED)
    throw os_error(
        errno, "cannot map " + std::to_string(sizes.total) + " bytes of folder '" + folder + "'");
  // From here on nothing throws: an object that is not finished has no destructor to unmap it.
  mapped_ = sizes.total;
  header_ = static_cast<moert_capture_segment_t*>(map);
  rows_ = static_cast<std::byte*>(map) + sizes.rows_offset;
  fill(spec, facts, sizes);
}

SegmentOwner::~SegmentOwner() {
  if (header_ != nullptr) {
    __atomic_store_n(&header_->closed, 1, __ATOMIC_RELEASE);
    ::munmap(header_, mapped_);
  }
  // The lock is held until the file is closed: nobody else removes it, or takes its name, in between.
  if (linked_ && same_file(fd_.get(), path_)) ::unlink(path_.c_str());
}

SegmentOwner::Sizes SegmentOwner::sizes(const moert_capture_spec_t& spec, uint64_t facts_bytes,
                                        uint64_t bytes) {
  constexpr uint64_t kLine = 64;
  const uint64_t facts_offset =
      sizeof(moert_capture_segment_t) + spec.n_layers * sizeof(moert_capture_segment_layer_t);
  const uint64_t rows_offset = (facts_offset + facts_bytes + kLine - 1) / kLine * kLine;
  capacity_ = bytes < rows_offset ? 0 : (bytes - rows_offset) / row_bytes_;
  if (capacity_ == 0)
    throw PluginError(MOERT_RESOURCE_EXHAUSTED,
                      "a segment of " + std::to_string(bytes) + " bytes holds no row: one takes " +
                          std::to_string(row_bytes_) + " bytes; raise buffer_mb");
  return {facts_offset, rows_offset, rows_offset + capacity_ * row_bytes_};
}

void SegmentOwner::fill(const moert_capture_spec_t& spec, const std::string& facts,
                        const Sizes& sizes) noexcept {
  moert_capture_segment_t& to = *header_;
  std::memcpy(to.magic, MOERT_CAPTURE_SEGMENT_MAGIC, sizeof to.magic);
  to.version = MOERT_CAPTURE_SEGMENT_VERSION;
  to.byte_order = MOERT_CAPTURE_SEGMENT_BYTE_ORDER;
  to.header_bytes = sizeof(moert_capture_segment_t);
  to.layer_bytes = sizeof(moert_capture_segment_layer_t);
  to.what = spec.what;
  to.n_layers = spec.n_layers;
  to.total_bytes = sizes.total;
  to.layers_offset = sizeof(moert_capture_segment_t);
  to.facts_offset = sizes.facts_offset;
  to.facts_bytes = facts.size();
  to.rows_offset = sizes.rows_offset;
  to.row_bytes = row_bytes_;
  to.capacity = capacity_;
  to.owner_pid = ::getpid();
  auto* layer = reinterpret_cast<moert_capture_segment_layer_t*>(header_ + 1);
  for (uint32_t i = 0; i < spec.n_layers; ++i)
    layer[i] = {spec.layer_ids[i], spec.num_experts[i], spec.top_k[i]};
  std::memcpy(reinterpret_cast<std::byte*>(header_) + sizes.facts_offset, facts.data(),
              facts.size());
}

// What stands under the name, if its owner is dead. Whoever removes it holds its owner's lock and has seen
// that the name is still its own, so of several starters none removes what another has just made.
// False: its owner lives.
bool SegmentOwner::remove_stale() const {
  const Fd other(::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!other && errno == ENOENT) return true;
  if (!other) throw os_error(errno, "'" + path_ + "' is there and cannot be opened");
  struct stat stat{};
  if (::fstat(other.get(), &stat) != 0 || !S_ISREG(stat.st_mode))
    throw PluginError(MOERT_ALREADY_EXISTS,
                      "'" + path_ + "' is there and is no file; choose another name");
  if (!is_segment(other.get()))
    throw PluginError(MOERT_ALREADY_EXISTS,
                      "'" + path_ + "' is there and is no segment; choose another name");
  if (!try_lock(other.get(), MOERT_CAPTURE_SEGMENT_OWNER_LOCK)) return false;
  if (same_file(other.get(), path_) && ::unlink(path_.c_str()) != 0 && errno != ENOENT)
    throw os_error(errno, "'" + path_ + "', which a dead process left, cannot be removed");
  return true;
}

bool SegmentOwner::link(const std::string& name) {
  path_ = folder_ + "/moert." + std::to_string(::geteuid()) + "." + name;
  const std::string self = "/proc/self/fd/" + std::to_string(fd_.get());
  for (;;) {
    if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path_.c_str(), AT_SYMLINK_FOLLOW) == 0) break;
    if (errno != EEXIST) throw os_error(errno, "cannot make '" + path_ + "'");
    if (!remove_stale()) return false;
  }
  linked_ = true;
  return true;
}

uint64_t SegmentOwner::free_rows() const {
  const uint64_t tail = __atomic_load_n(&header_->tail, __ATOMIC_ACQUIRE);
  if (head_ - tail > capacity_)
    throw PluginError(MOERT_DATA_LOSS, "the reader of '" + path_ + "' says that it took " +
                                           std::to_string(tail) + " rows, but " +
                                           std::to_string(head_) + " were published");
  return capacity_ - (head_ - tail);
}

uint64_t SegmentOwner::waiting_rows() const noexcept {
  const uint64_t waiting = head_ - __atomic_load_n(&header_->tail, __ATOMIC_ACQUIRE);
  return waiting <= capacity_ ? waiting : 0;
}

void SegmentOwner::publish(uint64_t head) noexcept {
  head_ = head;
  __atomic_store_n(&header_->head, head, __ATOMIC_RELEASE);
}

void SegmentOwner::set_lost(uint64_t lost) noexcept {
  __atomic_store_n(&header_->lost, lost, __ATOMIC_RELAXED);
}

bool SegmentOwner::reader_attached() const noexcept {
  return is_locked(fd_.get(), MOERT_CAPTURE_SEGMENT_READER_LOCK);
}

}  // namespace moert::capture
