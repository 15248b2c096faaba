// A chosen device: its memory and its stream, reached through moert.device/1.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <moert/abi/device.h>

#include "registry/registry.hpp"
#include "runtime/call.hpp"
#include "runtime/session.hpp"

namespace moert::runtime {

// One device and one stream on it. Work goes to that stream in order.
class Device {
 public:
  // `wanted` is "auto", "cpu", "cuda:1" ... With "auto": the first device that is there, by `prefer`,
  // then by rank. Throws Error(device) that says, for every backend, why it has no device.
  Device(const Session& session, const std::string& wanted, const std::vector<std::string>& prefer);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  moert_device_id_t id() const { return info_.id; }
  const moert_device_info_t& info() const { return info_; }
  const std::string& word() const { return word_; }  // "cpu"; see device_word
  std::string text() const;                          // "cpu:0"
  const moert_stream_t* stream() const { return &stream_; }

  void copy_to_device(void* to, const void* from, uint64_t bytes) const;
  void copy_to_host(void* to, const void* from, uint64_t bytes) const;
  void copy(void* to, const void* from, uint64_t bytes) const;  // within the device
  void fill(void* memory, uint8_t value, uint64_t bytes) const;
  void synchronize() const;

 private:
  friend class DeviceEvent;
  friend class DeviceGraph;
  friend class DeviceMemory;
  friend class StagingMemory;
  bool open(const Session& session, const registry::Candidate& candidate, int32_t ordinal,
            std::string& why);
  // Before memory goes that work on the stream may still use. What failed is told by the next synchronize.
  void finish() const noexcept;

  const moert_device_t* table_ = nullptr;
  std::string name_, word_;
  moert_device_info_t info_{};
  moert_stream_t stream_{};
  mutable moert_code_t found_ = MOERT_OK;  // by finish, not told yet
  mutable Call found_call_;
};

// Device memory with an owner; grows, never shrinks, contents lost when it grows.
class DeviceMemory {
 public:
  explicit DeviceMemory(const Device& device) : device_(&device) {}
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  void reserve(uint64_t bytes, const char* purpose);  // throws Error(device) with size and purpose
  void* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  const Device* device_;
  void* data_ = nullptr;
  uint64_t bytes_ = 0;
};

// Host memory that the device copies to without waiting: what copy_to_host writes here is there after the next
// synchronize. Grows, never shrinks, contents lost when it grows.
class StagingMemory {
 public:
  explicit StagingMemory(const Device& device) : device_(&device) {}
  StagingMemory(const StagingMemory&) = delete;
  StagingMemory& operator=(const StagingMemory&) = delete;
  ~StagingMemory();

  void reserve(uint64_t bytes, const char* purpose);  // throws Error(device) with size and purpose
  void* data() const { return data_; }

 private:
  const Device* device_;
  void* data_ = nullptr;
  uint64_t bytes_ = 0;
};

// What the devices of a device feature are called: "cuda", in what users write and in capabilities. The feature's own
// capability `device` says it; without one, the letters of its kind do. Several features may have one kind, so a kind
// is no name.
std::string device_word(const registry::Candidate& feature);

}  // namespace moert::runtime
