// Guards around memory, for builds with and without AddressSanitizer.
// SPDX-License-Identifier: Apache-2.0
#include "guarded.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#define MOERT_SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MOERT_SIM_ASAN 1
#endif
#endif
#ifdef MOERT_SIM_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace moert::sim {
namespace {

constexpr size_t kGuard = Guarded::kAlignment;
constexpr unsigned char kGuardByte = 0xa5;

void close(unsigned char* guard) {
  std::memset(guard, kGuardByte, kGuard);
#ifdef MOERT_SIM_ASAN
  __asan_poison_memory_region(guard, kGuard);
#endif
}

bool untouched(const unsigned char* guard) {
#ifdef MOERT_SIM_ASAN
  return __asan_address_is_poisoned(guard + kGuard - 1) != 0;
#else
  return std::all_of(guard, guard + kGuard, [](unsigned char byte) { return byte == kGuardByte; });
#endif
}

void open(unsigned char* start, size_t bytes) {
#ifdef MOERT_SIM_ASAN
  __asan_unpoison_memory_region(start, bytes);
#else
  (void)start;
  (void)bytes;
#endif
}

}  // namespace

Guarded::Guarded(size_t bytes) : bytes_(bytes) {
  if (bytes > SIZE_MAX / 2) throw std::bad_alloc();
  void* start = nullptr;
  if (posix_memalign(&start, kAlignment, bytes + 2 * kGuard) != 0) throw std::bad_alloc();
  data_ = static_cast<unsigned char*>(start) + kGuard;
  poison();
  close(data_ - kGuard);
  close(data_ + bytes_);
}

Guarded::~Guarded() {
  if (data_ == nullptr) return;
  open(data_ - kGuard, bytes_ + 2 * kGuard);
  std::free(data_ - kGuard);
}

Guarded::Guarded(Guarded&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Guarded& Guarded::operator=(Guarded&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void Guarded::poison() {
  if (bytes_ != 0) std::memset(data_, 0xff, bytes_);
}

bool Guarded::intact() const {
  return data_ == nullptr || (untouched(data_ - kGuard) && untouched(data_ + bytes_));
}

}  // namespace moert::sim
