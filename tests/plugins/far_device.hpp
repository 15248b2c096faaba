// Device "far": memory that the host cannot read, and streams that work only when somebody waits for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/device.hpp>

#include <functional>

namespace zoo {

inline constexpr uint32_t kFarKind = MOERT_DEVICE_KIND('f', 'a', 'r', ' ');

// Work on a stream, in order.
void enqueue(const moert_stream_t* stream, std::function<void()> work);
// Does what is on it, without counting as waiting.
void finish(const moert_stream_t* stream);
// Where code that runs on the device reads what the host knows as `pointer`; NULL gives NULL.
void* inside(const void* pointer);

template <class T>
T* inside_as(const moert_tensor_t* tensor) {
  return tensor == nullptr ? nullptr : static_cast<T*>(inside(tensor->data));
}

// Without events and graphs. The driver version is how often anybody waited for a stream, as a number.
class FarDevice : public moert::Device {
 public:
  static constexpr moert_kv_t kCaps[] = {{"device", "far"}};
  static constexpr moert::FeatureInfo kFeature = {"far.device", MOERT_RANK_GOOD, 0, kCaps, 1};

 private:
  friend moert::Device::Kind;
  static moert_code_t count(const moert_host_t*, int32_t* out, moert_error_t*) noexcept;
  static moert_code_t info(int32_t, moert_device_info_t* out, moert_error_t*) noexcept;
  static moert_code_t alloc(int32_t, uint64_t bytes, void** out, moert_error_t*) noexcept;
  static void release(int32_t, void* pointer) noexcept;
  static moert_code_t alloc_host(int32_t, uint64_t bytes, void** out, moert_error_t*) noexcept;
  static void free_host(int32_t, void* pointer) noexcept;
  static moert_code_t stream_create(int32_t, moert_stream_t* out, moert_error_t*) noexcept;
  static void stream_destroy(moert_stream_t* stream) noexcept;
  static moert_code_t synchronize(const moert_stream_t* stream, moert_error_t*) noexcept;
  static moert_code_t to_device(const moert_stream_t* stream, void* to, const void* from,
                                uint64_t bytes, moert_error_t*) noexcept;
  static moert_code_t to_host(const moert_stream_t* stream, void* to, const void* from,
                              uint64_t bytes, moert_error_t*) noexcept;
  static moert_code_t copy(const moert_stream_t* stream, void* to, const void* from, uint64_t bytes,
                           moert_error_t*) noexcept;
  static moert_code_t fill(const moert_stream_t* stream, void* to, uint8_t value, uint64_t bytes,
                           moert_error_t*) noexcept;
  static moert_code_t event_create(int32_t, void**, moert_error_t*) noexcept;
  static void event_destroy(int32_t, void*) noexcept {}
  static moert_code_t event_of_stream(const moert_stream_t*, void*, moert_error_t*) noexcept;
  static moert_code_t event_wait_for(int32_t, void*, moert_error_t*) noexcept;
  static moert_code_t event_elapsed(int32_t, void*, void*, double*, moert_error_t*) noexcept;

 public:
  static constexpr moert_device_t kTable = {
      sizeof(moert_device_t),
      kFarKind,
      &count,
      &info,
      &alloc,
      &release,
      &alloc_host,
      &free_host,
      &stream_create,
      &stream_destroy,
      &synchronize,
      &to_device,
      &to_host,
      &copy,
      &fill,
      &event_create,
      &event_destroy,
      &event_of_stream,
      &event_of_stream,
      &event_wait_for,
      &event_elapsed,
      nullptr,
      nullptr,
      nullptr,
      nullptr,
  };
};

}  // namespace zoo
