// Device memory with an owner.
// SPDX-License-Identifier: Apache-2.0
#include "device_memory.hpp"

#include <utility>

#include "runtime.hpp"

namespace moert::gpu {
namespace {

// A stream for one piece of work, which is waited for.
class Once {
 public:
  explicit Once(int32_t ordinal) : current_(ordinal), stream_(create_stream()) {}
  ~Once() { destroy_stream(stream_); }
  Once(const Once&) = delete;
  Once& operator=(const Once&) = delete;
  Stream stream() const { return stream_; }
  void wait() const { synchronize(stream_); }

 private:
  CurrentDevice current_;
  Stream stream_;
};

}  // namespace

void* allocate_for(const std::string& what, uint64_t bytes) {
  try {
    return allocate(bytes);
  } catch (const PluginError& error) {
    throw PluginError(error.code(), what + ": " + error.what(), error.native_code());
  }
}

DeviceMemory::DeviceMemory(int32_t ordinal, uint64_t bytes, const std::string& what)
    : ordinal_(ordinal), bytes_(bytes) {
  const CurrentDevice current(ordinal);
  memory_ = allocate_for(what, bytes);
}

DeviceMemory::DeviceMemory(int32_t ordinal, const void* host, uint64_t bytes,
                           const std::string& what)
    : DeviceMemory(ordinal, bytes, what) {
  write(host);
}

DeviceMemory::~DeviceMemory() {
  if (memory_ == nullptr) return;
  try {
    const CurrentDevice current(ordinal_);
    release(memory_);
  } catch (const PluginError&) {  // the device is gone, and its memory with it
  }
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : ordinal_(other.ordinal_),
      bytes_(std::exchange(other.bytes_, 0)),
      memory_(std::exchange(other.memory_, nullptr)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(ordinal_, other.ordinal_);
  std::swap(bytes_, other.bytes_);
  std::swap(memory_, other.memory_);
  return *this;
}

void DeviceMemory::write(const void* host) {
  if (empty()) return;
  const Once once(ordinal_);
  copy_to_device(once.stream(), memory_, host, bytes_);
  once.wait();
}

void DeviceMemory::read(void* host) const {
  if (empty()) return;
  const Once once(ordinal_);
  copy_to_host(once.stream(), host, memory_, bytes_);
  once.wait();
}

void DeviceMemory::fill(uint8_t value) {
  if (empty()) return;
  const Once once(ordinal_);
  gpu::fill(once.stream(), memory_, value, bytes_);
  once.wait();
}

}  // namespace moert::gpu
