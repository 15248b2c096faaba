// Memory of a device with guard words on both sides, and tensors over it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/device.h>
#include <moert/sdk/tensor.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace moert::conformance {

using Bytes = std::vector<unsigned char>;

// Where a feature's tensors live: a device of the plugins under test, or plain host memory.
class Place {
 public:
  explicit Place(const moert_device_t* device);
  ~Place();
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  moert_device_id_t id() const { return stream_.device; }
  const moert_stream_t* stream() const { return &stream_; }
  const moert_device_t* device() const { return device_; }
  bool host_memory() const { return stream_.device.kind == MOERT_DEVICE_CPU; }
  void* alloc(uint64_t bytes);
  void release(void* p);
  void put(void* to, const void* from, uint64_t bytes);
  void get(void* to, const void* from, uint64_t bytes);
  // Waits, and says what the device found wrong meanwhile.
  moert_code_t synchronize(moert_error_t* error);

 private:
  const moert_device_t* device_;
  moert_stream_t stream_;
};

// Work of a place's stream, recorded once. Stops the test if the device cannot.
class Recording {
 public:
  Recording(Place& place, const std::function<void()>& enqueue);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  void launch();

 private:
  Place& place_;
  void* graph_ = nullptr;
};

// Filled with 0xff: NaN in every float type, -1 in every integer.
class Buffer {
 public:
  Buffer(Place& place, uint64_t bytes);
  ~Buffer() { place_.release(memory_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // NULL if it has no bytes.
  void* data() const { return bytes_ == 0 ? nullptr : memory_ + kGuard; }
  uint64_t bytes() const { return bytes_; }
  void write(const Bytes& from) { write(from.data(), from.size()); }
  void write(const void* from, uint64_t bytes);
  Bytes read() const;
  // Fails the test if a word outside was written.
  void expect_guards(const std::string& name) const;

 private:
  static constexpr uint64_t kGuard = 256;
  Place& place_;
  uint64_t bytes_;
  unsigned char* memory_;
};

// A dense tensor in a buffer of its own.
class Tensor {
 public:
  Tensor(Place& place, uint32_t dtype, std::initializer_list<int64_t> shape);
  Tensor(Place& place, uint32_t dtype, std::initializer_list<int64_t> shape, const Bytes& contents)
      : Tensor(place, dtype, shape) {
    buffer_->write(contents);
  }
  const moert_tensor_t* get() const { return view_.get(); }
  TensorView& view() { return view_; }
  Buffer& buffer() { return *buffer_; }
  Bytes read() const { return buffer_->read(); }

 private:
  std::unique_ptr<Buffer> buffer_;
  TensorView view_;
};

}  // namespace moert::conformance
