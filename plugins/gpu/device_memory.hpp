// Device memory with an owner.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace moert::gpu {

// Bytes of a device's memory, which go back when the array does; none is no memory. Moving hands them on.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // Contents are undefined. Throws what allocate throws.
  DeviceMemory(int32_t ordinal, uint64_t bytes);
  // Holds what `host` holds when the constructor returns.
  DeviceMemory(int32_t ordinal, const void* host, uint64_t bytes);
  template <class T>
  DeviceMemory(int32_t ordinal, const std::vector<T>& host)
      : DeviceMemory(ordinal, host.data(), host.size() * sizeof(T)) {}
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
