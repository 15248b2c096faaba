// moert.device/1 over runtime.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "device.hpp"

#include "faults.hpp"
#include "runtime.hpp"

namespace moert::gpu {
namespace {

constexpr uint64_t kAlignment = 256;

constexpr const char* kWhere = GpuDevice::kFeature.name;

// A call on one device, with that device as the current one.
template <class Body>
moert_code_t on_device(int32_t ordinal, moert_error_t* error, Body body) noexcept {
  return detail::guarded(error, kWhere, [&] {
    remembered_facts(ordinal);  // throws for a device that does not exist
    const CurrentDevice current(ordinal);
    body();
  });
}

// The same for a stream's device.
template <class Body>
moert_code_t on_stream(const moert_stream_t* stream, moert_error_t* error, Body body) noexcept {
  return detail::guarded(error, kWhere, [&] {
    if (stream == nullptr) throw PluginError(MOERT_INVALID_ARGUMENT, "the stream is missing");
    if (stream->device.kind != kDeviceKind)
      throw PluginError(MOERT_INVALID_ARGUMENT, "the stream belongs to another kind of device");
    remembered_facts(stream->device.ordinal);
    const CurrentDevice current(stream->device.ordinal);
    body(stream->native);
  });
}

// Where nothing can be reported: what fails has nothing left to lose.
template <class Body>
void quietly(int32_t ordinal, void* what, Body body) noexcept {
  if (what != nullptr) on_device(ordinal, nullptr, body);
}

template <class T>
void expect_place(const T* place, const char* of) {
  if (place == nullptr)
    throw PluginError(MOERT_INVALID_ARGUMENT, std::string("nowhere to put the ") + of);
}
void expect_there(const void* object, const char* name) {
  if (object == nullptr)
    throw PluginError(MOERT_INVALID_ARGUMENT, std::string("the ") + name + " is missing");
}

void report_faults(int32_t ordinal) {
  if (const std::string text = take_fault(ordinal); !text.empty())
    throw PluginError(MOERT_INVALID_ARGUMENT, text);
}

template <class Copy>
moert_code_t copied(const moert_stream_t* stream, void* to, const void* from, uint64_t bytes,
                    moert_error_t* error, Copy run) noexcept {
  return on_stream(stream, error, [&](Stream native) {
    if (bytes == 0) return;
    if (to == nullptr || from == nullptr)
      throw PluginError(MOERT_INVALID_ARGUMENT,
                        "a copy of " + std::to_string(bytes) + " bytes from or to NULL");
    run(native, to, from, bytes);
  });
}

void expect_graphs(int32_t ordinal) {
  if (!remembered_facts(ordinal).graphs)
    throw PluginError(MOERT_UNIMPLEMENTED, "this device has no graphs");
}

}  // namespace

moert_code_t GpuDevice::count(const moert_host_t*, int32_t* out, moert_error_t* error) noexcept {
  return detail::guarded(error, kWhere, [&] {
    expect_place(out, "count");
    *out = device_count();
  });
}

moert_code_t GpuDevice::info(int32_t ordinal, moert_device_info_t* out,
                             moert_error_t* error) noexcept {
  return detail::guarded(error, kWhere, [&] {
    moert_device_info_t all{};
    if (out == nullptr || out->struct_size < sizeof all)
      throw PluginError(MOERT_INVALID_ARGUMENT, "moert_device_info is missing or too small");
    const DeviceFacts facts = device_facts(ordinal);
    all.struct_size = out->struct_size;
    all.flags = facts.graphs ? uint32_t{MOERT_DEVICE_GRAPHS} : 0u;
    all.id = {kDeviceKind, ordinal};
    all.memory_bytes = facts.memory;
    all.memory_free_bytes = facts.memory_free;
    all.compute_units = facts.multiprocessors;
    all.warp_size = facts.warp;
    all.alignment = kAlignment;
    detail::copy_text(all.name, sizeof all.name, facts.name);
    detail::copy_text(all.architecture, sizeof all.architecture, facts.architecture);
    detail::copy_text(all.driver_version, sizeof all.driver_version, facts.driver);
    std::memcpy(out, &all, sizeof all);
  });
}

moert_code_t GpuDevice::alloc(int32_t ordinal, uint64_t bytes, void** out,
                              moert_error_t* error) noexcept {
  return on_device(ordinal, error, [&] {
    expect_place(out, "pointer");
    *out = nullptr;
    *out = allocate(bytes);
  });
}

void GpuDevice::free(int32_t ordinal, void* pointer) noexcept {
  quietly(ordinal, pointer, [&] { gpu::release(pointer); });
}

moert_code_t GpuDevice::alloc_host(int32_t ordinal, uint64_t bytes, void** out,
                                   moert_error_t* error) noexcept {
  return on_device(ordinal, error, [&] {
    expect_place(out, "pointer");
    *out = nullptr;
    *out = allocate_host(bytes);
  });
}

void GpuDevice::free_host(int32_t ordinal, void* pointer) noexcept {
  quietly(ordinal, pointer, [&] { release_host(pointer); });
}

moert_code_t GpuDevice::stream_create(int32_t ordinal, moert_stream_t* out,
                                      moert_error_t* error) noexcept {
  return on_device(ordinal, error, [&] {
    if (out == nullptr || out->struct_size < sizeof *out)
      throw PluginError(MOERT_INVALID_ARGUMENT, "moert_stream is missing or too small");
    out->native = create_stream();
    out->flags = 0;
    out->device = {kDeviceKind, ordinal};
  });
}

void GpuDevice::stream_destroy(moert_stream_t* stream) noexcept {
  if (stream == nullptr || stream->device.kind != kDeviceKind) return;
  quietly(stream->device.ordinal, stream->native, [&] { destroy_stream(stream->native); });
  stream->native = nullptr;
}

moert_code_t GpuDevice::stream_synchronize(const moert_stream_t* stream,
                                           moert_error_t* error) noexcept {
  return on_stream(stream, error, [&](Stream native) {
    synchronize(native);
    report_faults(stream->device.ordinal);
  });
}

moert_code_t GpuDevice::copy_to_device(const moert_stream_t* stream, void* device, const void* host,
                                       uint64_t bytes, moert_error_t* error) noexcept {
  return copied(stream, device, host, bytes, error, &gpu::copy_to_device);
}

moert_code_t GpuDevice::copy_to_host(const moert_stream_t* stream, void* host, const void* device,
                                     uint64_t bytes, moert_error_t* error) noexcept {
  return copied(stream, host, device, bytes, error, &gpu::copy_to_host);
}

moert_code_t GpuDevice::copy(const moert_stream_t* stream, void* to, const void* from,
                             uint64_t bytes, moert_error_t* error) noexcept {
  return copied(stream, to, from, bytes, error, &gpu::copy_on_device);
}

moert_code_t GpuDevice::fill(const moert_stream_t* stream, void* device, uint8_t value,
                             uint64_t bytes, moert_error_t* error) noexcept {
  return on_stream(stream, error, [&](Stream native) {
    if (bytes == 0) return;
    if (device == nullptr)
      throw PluginError(MOERT_INVALID_ARGUMENT,
                        "a fill of " + std::to_string(bytes) + " bytes at NULL");
    gpu::fill(native, device, value, bytes);
  });
}

moert_code_t GpuDevice::event_create(int32_t ordinal, void** event, moert_error_t* error) noexcept {
  return on_device(ordinal, error, [&] {
    expect_place(event, "event");
    *event = create_event();
  });
}

void GpuDevice::event_destroy(int32_t ordinal, void* event) noexcept {
  quietly(ordinal, event, [&] { destroy_event(event); });
}

moert_code_t GpuDevice::event_record(const moert_stream_t* stream, void* event,
                                     moert_error_t* error) noexcept {
  return on_stream(stream, error, [&](Stream native) {
    expect_there(event, "event");
    record(native, event);
  });
}

moert_code_t GpuDevice::event_wait(const moert_stream_t* stream, void* event,
                                   moert_error_t* error) noexcept {
  return on_stream(stream, error, [&](Stream native) {
    expect_there(event, "event");
    wait(native, event);
  });
}

moert_code_t GpuDevice::event_synchronize(int32_t ordinal, void* event,
                                          moert_error_t* error) noexcept {
  return on_device(ordinal, error, [&] {
    expect_there(event, "event");
    synchronize_event(event);
    report_faults(ordinal);
  });
}

moert_code_t GpuDevice::event_elapsed(int32_t ordinal, void* start, void* stop, double* seconds,
                                      moert_error_t* error) noexcept {
  return on_device(ordinal, error, [&] {
    expect_there(start, "first event");
    expect_there(stop, "second event");
    expect_place(seconds, "time");
    *seconds = seconds_between(start, stop);
  });
}

moert_code_t GpuDevice::graph_begin(const moert_stream_t* stream, moert_error_t* error) noexcept {
  return on_stream(stream, error, [&](Stream native) {
    expect_graphs(stream->device.ordinal);
    begin_graph(native);
  });
}

moert_code_t GpuDevice::graph_end(const moert_stream_t* stream, void** graph,
                                  moert_error_t* error) noexcept {
  return on_stream(stream, error, [&](Stream native) {
    expect_graphs(stream->device.ordinal);
    expect_place(graph, "graph");
    *graph = end_graph(native);
  });
}

moert_code_t GpuDevice::graph_launch(const moert_stream_t* stream, void* graph,
                                     moert_error_t* error) noexcept {
  return on_stream(stream, error, [&](Stream native) {
    expect_graphs(stream->device.ordinal);
    expect_there(graph, "graph");
    launch_graph(native, graph);
  });
}

void GpuDevice::graph_destroy(int32_t ordinal, void* graph) noexcept {
  quietly(ordinal, graph, [&] { destroy_graph(graph); });
}

}  // namespace moert::gpu
