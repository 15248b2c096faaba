// SPDX-License-Identifier: Apache-2.0
#include "os_error.hpp"

#include <cerrno>
#include <ctime>
#include <system_error>

namespace moert::capture {
namespace {

sigset_t size_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGXFSZ);
  return set;
}

bool is_pending() {
  sigset_t set;
  sigpending(&set);
  return sigismember(&set, SIGXFSZ) == 1;
}

}  // namespace

moert_code_t code_of(int error) {
  switch (error) {
    case ENOSPC:
    case EFBIG:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE: return MOERT_RESOURCE_EXHAUSTED;
    case EACCES:
    case EPERM:
    case EROFS: return MOERT_PERMISSION_DENIED;
    case ENOENT:
    case ENOTDIR: return MOERT_NOT_FOUND;
    default: return MOERT_INTERNAL;
  }
}

PluginError os_error(int error, const std::string& what) {
  return {code_of(error), what + ": " + std::generic_category().message(error), error};
}

SizeLimitIsAnError::SizeLimitIsAnError() : was_pending_(is_pending()) {
  const sigset_t set = size_signal();
  pthread_sigmask(SIG_BLOCK, &set, &before_);
}

SizeLimitIsAnError::~SizeLimitIsAnError() {
  const sigset_t set = size_signal();
  const timespec at_once = {0, 0};
  if (!was_pending_ && is_pending()) sigtimedwait(&set, nullptr, &at_once);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace moert::capture
