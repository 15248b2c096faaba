// A chosen device: its memory and its stream, reached through moert.device/1.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <moert/abi/device.h>

#include "registry/registry.hpp"
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
  std::string text() const;  // "cpu:0"
  const moert_stream_t* stream() const { return &stream_; }

  void copy_to_device(void* to, const void* from, uint64_t bytes) const;
  void copy_to_host(void* to, const void* from, uint64_t bytes) const;
  void synchronize() const;

 private:
  friend class DeviceMemory;
  bool open(const Session& session, const registry::Candidate& candidate, int32_t ordinal,
            std::string& why);

  const moert_device_t* table_ = nullptr;
  std::string name_;
  moert_device_info_t info_{};
  moert_stream_t stream_{};
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

// "cuda" from a FourCC, without the padding.
std::string device_kind_text(uint32_t kind);

}  // namespace moert::runtime
