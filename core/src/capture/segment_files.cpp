// SPDX-License-Identifier: Apache-2.0
#include "capture/segment_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <moert/error.hpp>
#include <optional>
#include <system_error>

#include "capture/segment.hpp"
#include "capture/segment_header.hpp"
#include "util/nearest.hpp"

namespace moert::capture {
namespace {

constexpr std::string_view kPrefix = "moert.";

// "moert.<user>.<name>"; name and user of anything else are not there.
std::optional<SegmentInfo> named(const std::filesystem::path& path) {
  const std::string file = path.filename().string();
  SegmentInfo info;
  if (!file.starts_with(kPrefix)) return std::nullopt;
  const char* const end = file.data() + file.size();
  const auto [dot, code] = std::from_chars(file.data() + kPrefix.size(), end, info.user);
  if (code != std::errc{} || info.user < 0 || dot + 1 >= end || *dot != '.') return std::nullopt;
  info.name = std::string(dot + 1, end);
  info.path = path;
  return info;
}

void look_into(const SegmentFile& file, SegmentInfo& info) {
  const moert_capture_segment_t fields = read_segment_header(file.fd(), info.path).fields;
  info.owner_alive = segment_locked(file.fd(), MOERT_CAPTURE_SEGMENT_OWNER_LOCK);
  info.reader_attached = segment_locked(file.fd(), MOERT_CAPTURE_SEGMENT_READER_LOCK);
  info.closed = fields.closed != 0;
  info.owner_pid = fields.owner_pid;
  // The two counters were read without order: a reader may have moved in between.
  const uint64_t rows = fields.head - fields.tail;
  info.waiting = rows <= fields.capacity ? static_cast<int64_t>(rows) : 0;
}

// Removes the file if its owner is dead, nobody reads it and the name is still its own.
bool remove_if_stale(const SegmentInfo& info) {
  const SegmentFile file(info.path, SegmentFile::Use::attach);
  return lock_segment(file.fd(), MOERT_CAPTURE_SEGMENT_OWNER_LOCK) &&
         lock_segment(file.fd(), MOERT_CAPTURE_SEGMENT_READER_LOCK) && file.still_named() &&
         ::unlink(info.path.c_str()) == 0;
}

}  // namespace

std::filesystem::path default_segment_folder() { return MOERT_CAPTURE_SEGMENT_FOLDER; }

SegmentFile::SegmentFile(std::filesystem::path path, Use use) : path_(std::move(path)) {
  const int mode = use == Use::attach ? O_RDWR : O_RDONLY;
  // Not blocking: what has the name may be a pipe.
  fd_ = ::open(path_.c_str(), mode | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd_ < 0)
    throw Error(Fault::usage, "cannot open the segment: " + std::generic_category().message(errno),
                path_.string(),
                errno == EACCES ? "it belongs to another user: read it as that one"
                                : "`moert capture segments` shows those that are there");
}

// In a folder where everybody may make files, a name is no proof of whose a file is.
void SegmentFile::expect_owner() const {
  const std::optional<SegmentInfo> info = named(path_);
  struct stat stat{};
  if (info && ::fstat(fd_, &stat) == 0 && int64_t{stat.st_uid} != info->user)
    throw Error(Fault::input,
                "the file belongs to user " + std::to_string(stat.st_uid) +
                    ", which is not the user that its name says",
                path_.string(), "do not read it; remove it, or choose another name");
}

SegmentFile::~SegmentFile() { ::close(fd_); }

uint64_t SegmentFile::bytes() const {
  struct stat stat{};
  return ::fstat(fd_, &stat) == 0 ? static_cast<uint64_t>(stat.st_size) : 0;
}

bool SegmentFile::still_named() const {
  struct stat open{}, there{};
  return ::fstat(fd_, &open) == 0 && ::lstat(path_.c_str(), &there) == 0 &&
         open.st_dev == there.st_dev && open.st_ino == there.st_ino;
}

void SegmentFile::expect_size(uint64_t bytes) const {
  if (const uint64_t now = this->bytes(); now != bytes)
    throw Error(
        Fault::input,
        "the file had " + std::to_string(bytes) + " bytes and now has " + std::to_string(now),
        path_.string(), "somebody cut it while it was read; start the capture again");
}

std::vector<SegmentInfo> list_segments(const std::filesystem::path& folder) {
  std::vector<SegmentInfo> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    std::optional<SegmentInfo> info = named(entry.path());
    if (!info) continue;
    try {
      const SegmentFile file(info->path, SegmentFile::Use::look);
      info->bytes = file.bytes();
      file.expect_owner();
      look_into(file, *info);
    } catch (const Error& e) {
      if (!std::filesystem::exists(std::filesystem::symlink_status(info->path, error))) continue;
      info->problem = e.problem();
    }
    found.push_back(*info);
  }
  std::sort(found.begin(), found.end(),
            [](const SegmentInfo& a, const SegmentInfo& b) { return a.path < b.path; });
  return found;
}

std::vector<SegmentInfo> remove_stale(const std::filesystem::path& folder,
                                      const std::string& name) {
  std::vector<SegmentInfo> removed;
  for (const SegmentInfo& info : list_segments(folder)) {
    if (!info.problem.empty() || info.owner_alive || (!name.empty() && info.name != name)) continue;
    try {
      if (remove_if_stale(info)) removed.push_back(info);
    } catch (const Error&) {
      // Gone meanwhile, or another user's: it stays as it is.
    }
  }
  return removed;
}

std::filesystem::path find_segment(const std::string& name, const std::filesystem::path& folder) {
  if (name.find('/') != std::string::npos) return name;
  std::filesystem::path own =
      folder / (std::string(kPrefix) + std::to_string(::geteuid()) + "." + name);
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::symlink_status(own, error))) return own;
  std::vector<std::string> names;
  std::vector<std::filesystem::path> same;
  for (const SegmentInfo& info : list_segments(folder)) {
    names.push_back(info.name);
    if (info.name == name) same.push_back(info.path);
  }
  if (same.size() == 1) return same.front();
  if (same.size() > 1)
    throw Error(Fault::usage, "several users have a segment '" + name + "'", folder.string(),
                "give its path: " + same[0].string() + ", " + same[1].string());
  throw Error(Fault::usage, "there is no segment '" + name + "'", folder.string(),
              names.empty()
                  ? "there is none at all; start a run that captures to capture.shared_memory"
                  : "there are: " + joined(names));
}

}  // namespace moert::capture
