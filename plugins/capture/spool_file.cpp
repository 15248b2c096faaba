// SPDX-License-Identifier: Apache-2.0
#include "spool_file.hpp"

#include <fcntl.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): mkostemp is POSIX

#include <cerrno>

namespace moert::capture {
namespace {

// Some file systems cannot make a file without a name; there it has one for a moment.
int open_unnamed(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
  std::string name = folder + "/moert-spool-XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

}  // namespace

SpoolFile::SpoolFile(std::string folder) : folder_(std::move(folder)), fd_(open_unnamed(folder_)) {
  if (!fd_) throw os_error(errno, "cannot make a spool file in folder '" + folder_ + "'");
}

int SpoolFile::write(const std::byte* from, size_t bytes, uint64_t offset) const {
  while (bytes > 0) {
    const ssize_t n = ::pwrite(fd_.get(), from, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : ENOSPC;
    from += n;
    bytes -= static_cast<size_t>(n);
    offset += static_cast<uint64_t>(n);
  }
  return 0;
}

void SpoolFile::read(std::byte* to, size_t bytes, uint64_t offset) const {
  while (bytes > 0) {
    const ssize_t n = ::pread(fd_.get(), to, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      throw PluginError(MOERT_DATA_LOSS, "the spool file in folder '" + folder_ +
                                             "' cannot be read back at byte " +
                                             std::to_string(offset));
    to += n;
    bytes -= static_cast<size_t>(n);
    offset += static_cast<uint64_t>(n);
  }
}

}  // namespace moert::capture
