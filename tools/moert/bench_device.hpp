// Where `moert bench experts` measures: how work on a device is timed, and what the device gives at most.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "runtime/device_work.hpp"

namespace moert::tool {

// Times work on a device's stream: by its events, or by the clock where its work is done when a call returns. The
// device is borrowed.
class BenchDevice {
 public:
  // Takes memory as large as what pushes everything else out of a cache of so many bytes. Throws Error(device) where
  // there is not enough.
  BenchDevice(const runtime::Device& device, uint64_t cache_bytes);
  BenchDevice(const BenchDevice&) = delete;
  BenchDevice& operator=(const BenchDevice&) = delete;
  ~BenchDevice();

  const runtime::Device& device() const { return device_; }
  // What the constructor takes of the device's memory.
  static uint64_t memory_bytes(const runtime::Device& device, uint64_t cache_bytes);

  // What the work that `enqueue` puts on the stream takes, and nothing else: neither the work before it nor the
  // host's time. May call `enqueue` several times.
  double seconds(const std::function<void()>& enqueue);

 private:
  struct Events;
  void lead(int64_t rounds) const;

  const runtime::Device& device_;
  std::unique_ptr<Events> events_;  // none on a host
  runtime::DeviceMemory from_, to_;
};

// Memory is the host's, and work is done when the call returns.
bool on_host(const runtime::Device& device);

// The rate at which a device copies within its memory, which is what bytes read are held against.
class DeviceLimits {
 public:
  // Copies from one half of so many bytes to the other; each should exceed the caches several times. Throws
  // Error(device) where memory is short.
  DeviceLimits(BenchDevice& device, uint64_t bytes);

  // Bytes read and bytes written, together; the best of three.
  double copy_bytes_per_second() const;

 private:
  BenchDevice& device_;
  uint64_t half_;
  runtime::DeviceMemory from_, to_;
};

}  // namespace moert::tool
