// Arrays of a test that are on the device and on the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <vector>

#include "gpu/prepare.hpp"
#include "gpu/runtime.hpp"

namespace moert::gpu {

// Kernels may be launched in it though no object was made on the device.
class TestStream {
 public:
  TestStream() : stream_(create_stream()) { prepare_device(0); }
  ~TestStream() { destroy_stream(stream_); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  Stream get() const { return stream_; }

 private:
  Stream stream_;
};

// Of device 0. Exactly as large as its elements, so that a sanitizer sees a kernel that reads behind them.
template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  ~DeviceArray() { release(device_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  void resize(int64_t n) {
    release(device_);
    host_.assign(static_cast<size_t>(n), T{});
    device_ = static_cast<T*>(allocate(bytes()));
  }
  void assign(const std::vector<T>& values) {
    resize(static_cast<int64_t>(values.size()));
    host_ = values;
    upload();
  }
  void upload() {
    const TestStream stream;
    copy_to_device(stream.get(), device_, host_.data(), bytes());
    synchronize(stream.get());
  }
  // 0xff: NaN in every float type, -1 in every integer.
  void poison() {
    const TestStream stream;
    fill(stream.get(), device_, 0xff, bytes());
    synchronize(stream.get());
  }
  std::vector<T> download() const {
    std::vector<T> values(host_.size());
    const TestStream stream;
    copy_to_host(stream.get(), values.data(), device_, bytes());
    synchronize(stream.get());
    return values;
  }
  T* host() { return host_.data(); }
  const T* host() const { return host_.data(); }
  T* device() const { return device_; }
  int64_t size() const { return static_cast<int64_t>(host_.size()); }

 private:
  uint64_t bytes() const { return host_.size() * sizeof(T); }
  std::vector<T> host_;
  T* device_ = nullptr;
};

}  // namespace moert::gpu
