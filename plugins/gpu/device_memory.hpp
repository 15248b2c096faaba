// Device memory with an owner.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moert::gpu {

// Memory of the current device. Throws what allocate throws, with `what` the memory was to hold.
void* allocate_for(const std::string& what, uint64_t bytes);

// Bytes of a device's memory, which go back when the array does; none is no memory. Moving hands them on.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // Contents are undefined. Throws what allocate_for throws.
  DeviceMemory(int32_t ordinal, uint64_t bytes, const std::string& what);
  // Holds what `host` holds when the constructor returns.
  DeviceMemory(int32_t ordinal, const void* host, uint64_t bytes, const std::string& what);
  template <class T>
  DeviceMemory(int32_t ordinal, const std::vector<T>& host, const std::string& what)
      : DeviceMemory(ordinal, host.data(), host.size() * sizeof(T), what) {}
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // NULL if there are no bytes.
  template <class T>
  T* data() const {
    return static_cast<T*>(memory_);
  }
  uint64_t bytes() const { return bytes_; }
  bool empty() const { return bytes_ == 0; }

  // Whole contents, done when the call returns.
  void write(const void* host);
  void read(void* host) const;
  void fill(uint8_t value);

 private:
  int32_t ordinal_ = 0;
  uint64_t bytes_ = 0;
  void* memory_ = nullptr;
};

}  // namespace moert::gpu
