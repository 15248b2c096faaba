// moert.device/1 over runtime.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/device.hpp>

#include "backend.hpp"

namespace moert::gpu {

// What kernels found wrong (faults.hpp) is the error of the next synchronisation with the device, once.
class GpuDevice : public Device {
 public:
  static constexpr FeatureInfo kFeature = feature(MOERT_GPU_WORD ".device", MOERT_RANK_BEST);

  static moert_code_t count(const moert_host_t*, int32_t* out, moert_error_t* error) noexcept;
  static moert_code_t info(int32_t ordinal, moert_device_info_t* out,
                           moert_error_t* error) noexcept;
  static moert_code_t alloc(int32_t ordinal, uint64_t bytes, void** out,
                            moert_error_t* error) noexcept;
  static void free(int32_t ordinal, void* pointer) noexcept;
  static moert_code_t alloc_host(int32_t ordinal, uint64_t bytes, void** out,
                                 moert_error_t* error) noexcept;
  static void free_host(int32_t ordinal, void* pointer) noexcept;
  static moert_code_t stream_create(int32_t ordinal, moert_stream_t* out,
                                    moert_error_t* error) noexcept;
  static void stream_destroy(moert_stream_t* stream) noexcept;
  static moert_code_t stream_synchronize(const moert_stream_t* stream,
                                         moert_error_t* error) noexcept;
  static moert_code_t copy_to_device(const moert_stream_t* stream, void* device, const void* host,
                                     uint64_t bytes, moert_error_t* error) noexcept;
  static moert_code_t copy_to_host(const moert_stream_t* stream, void* host, const void* device,
                                   uint64_t bytes, moert_error_t* error) noexcept;
  static moert_code_t copy(const moert_stream_t* stream, void* to, const void* from, uint64_t bytes,
                           moert_error_t* error) noexcept;
  static moert_code_t fill(const moert_stream_t* stream, void* device, uint8_t value,
                           uint64_t bytes, moert_error_t* error) noexcept;
  static moert_code_t event_create(int32_t ordinal, void** event, moert_error_t* error) noexcept;
  static void event_destroy(int32_t ordinal, void* event) noexcept;
  static moert_code_t event_record(const moert_stream_t* stream, void* event,
                                   moert_error_t* error) noexcept;
  static moert_code_t event_wait(const moert_stream_t* stream, void* event,
                                 moert_error_t* error) noexcept;
  static moert_code_t event_synchronize(int32_t ordinal, void* event,
                                        moert_error_t* error) noexcept;
  static moert_code_t event_elapsed(int32_t ordinal, void* start, void* stop, double* seconds,
                                    moert_error_t* error) noexcept;
  static moert_code_t graph_begin(const moert_stream_t* stream, moert_error_t* error) noexcept;
  static moert_code_t graph_end(const moert_stream_t* stream, void** graph,
                                moert_error_t* error) noexcept;
  static moert_code_t graph_launch(const moert_stream_t* stream, void* graph,
                                   moert_error_t* error) noexcept;
  static void graph_destroy(int32_t ordinal, void* graph) noexcept;

  static constexpr moert_device_t kTable = {sizeof(moert_device_t),
                                            kDeviceKind,
                                            &count,
                                            &info,
                                            &alloc,
                                            &free,
                                            &alloc_host,
                                            &free_host,
                                            &stream_create,
                                            &stream_destroy,
                                            &stream_synchronize,
                                            &copy_to_device,
                                            &copy_to_host,
                                            &copy,
                                            &fill,
                                            &event_create,
                                            &event_destroy,
                                            &event_record,
                                            &event_wait,
                                            &event_synchronize,
                                            &event_elapsed,
                                            &graph_begin,
                                            &graph_end,
                                            &graph_launch,
                                            &graph_destroy};
};

}  // namespace moert::gpu
