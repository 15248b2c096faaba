// cpu.device of moert.device/1: host memory, and streams whose work is done at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/device.hpp>

namespace moert::cpu {

class CpuDevice : public Device {
 public:
  static constexpr moert_kv_t kCaps[] = {{"device", "cpu"}};
  static constexpr FeatureInfo kFeature = {"cpu.device", MOERT_RANK_GOOD, 0, kCaps, 1};

  static moert_code_t count(const moert_host_t*, int32_t* out, moert_error_t* error) noexcept;
  static moert_code_t info(int32_t ordinal, moert_device_info_t* out,
                           moert_error_t* error) noexcept;
  static moert_code_t allocate(int32_t ordinal, uint64_t bytes, void** out,
                               moert_error_t* error) noexcept;
  static void release(int32_t, void* pointer) noexcept;
  static moert_code_t stream_create(int32_t ordinal, moert_stream_t* out,
                                    moert_error_t* error) noexcept;
  static void stream_destroy(moert_stream_t*) noexcept;
  static moert_code_t stream_synchronize(const moert_stream_t* stream,
                                         moert_error_t* error) noexcept;
  static moert_code_t copy(const moert_stream_t* stream, void* to, const void* from, uint64_t bytes,
                           moert_error_t* error) noexcept;
  static moert_code_t fill(const moert_stream_t* stream, void* to, uint8_t value, uint64_t bytes,
                           moert_error_t* error) noexcept;
  static moert_code_t event_create(int32_t ordinal, void** event, moert_error_t* error) noexcept;
  static void event_destroy(int32_t, void* event) noexcept;
  static moert_code_t event_record(const moert_stream_t* stream, void* event,
                                   moert_error_t* error) noexcept;
  static moert_code_t event_wait(const moert_stream_t* stream, void* event,
                                 moert_error_t* error) noexcept;
  static moert_code_t event_synchronize(int32_t ordinal, void* event,
                                        moert_error_t* error) noexcept;
  static moert_code_t event_elapsed(int32_t ordinal, void* start, void* stop, double* seconds,
                                    moert_error_t* error) noexcept;

  static constexpr moert_device_t kTable = {
      sizeof(moert_device_t),
      MOERT_DEVICE_CPU,
      &count,
      &info,
      &allocate,
      &release,
      &allocate,  // any host memory is as good
      &release,
      &stream_create,
      &stream_destroy,
      &stream_synchronize,
      &copy,
      &copy,
      &copy,
      &fill,
      &event_create,
      &event_destroy,
      &event_record,
      &event_wait,
      &event_synchronize,
      &event_elapsed,
      nullptr,  // no graphs
      nullptr,
      nullptr,
      nullptr,
  };
};

}  // namespace moert::cpu
