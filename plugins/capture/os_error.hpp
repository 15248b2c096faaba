// Errors of the operating system as errors of the border, file descriptors, and writes beyond a limit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <csignal>
#include <moert/sdk/error.hpp>
#include <utility>

namespace moert::capture {

// The code for an errno: no room, no permission, not there, else internal.
moert_code_t code_of(int error);
// "what: No space left on device"
PluginError os_error(int error, const std::string& what);

// A file descriptor that is closed at the end.
class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

// While it lives, a file that would grow beyond the process's limit (RLIMIT_FSIZE) is an error of the call
// that asked for it, and does not end the process by SIGXFSZ. Of the calling thread only; its signal mask
// is as before afterwards.
class SizeLimitIsAnError {
 public:
  SizeLimitIsAnError();
  ~SizeLimitIsAnError();
  SizeLimitIsAnError(const SizeLimitIsAnError&) = delete;
  SizeLimitIsAnError& operator=(const SizeLimitIsAnError&) = delete;

 private:
  sigset_t before_{};
  bool was_pending_;
};

}  // namespace moert::capture
