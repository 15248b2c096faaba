// The toolkit's host side as the rest of plugins/gpu sees it. Every backend defines these functions in its own
// runtime.cpp; which one it is shows in kBackend alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/device.h>
#include <moert/sdk/error.hpp>

#include <cstdint>
#include <string>

#include "layout_id.hpp"

namespace moert::gpu {

using Stream = void*;
using Event = void*;
using Graph = void*;

struct Backend {
  const char* word;      // "cuda": in names of features and in messages
  uint32_t device_kind;  // MOERT_DEVICE_KIND('c', 'u', 'd', 'a')
};
extern const Backend kBackend;

struct DeviceFacts {
  std::string name;          // "NVIDIA H200"
  std::string architecture;  // "sm_90", "gfx90a"
  std::string driver;        // version, empty where there is none
  uint64_t memory = 0, memory_free = 0;
  int32_t multiprocessors = 0;
  int32_t warp = 0;           // 32 or 64
  uint32_t shared_bytes = 0;  // most dynamic shared memory of a block, when asked for
  LayoutId layout = LayoutId::nv;
  bool graphs = true;
};

// Number of devices with kernels in this file. Throws MOERT_UNAVAILABLE with one line that says why there are none:
// no driver, driver too old, no device, no kernels for the architecture.
int32_t device_count();
// Throws MOERT_INVALID_ARGUMENT for an ordinal that does not exist.
DeviceFacts device_facts(int32_t ordinal);
// The same without the free memory, asked once and then remembered. Any thread.
const DeviceFacts& remembered_facts(int32_t ordinal);

// Makes a device the calling thread's current one, and then again that which was.
class CurrentDevice {
 public:
  explicit CurrentDevice(int32_t ordinal);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int32_t before_ = -1;
};

// All of these throw PluginError with the toolkit's number, and work on the current device.
// 0 bytes give NULL. MOERT_RESOURCE_EXHAUSTED says how much was asked for and how much is free.
void* allocate(uint64_t bytes);
void release(void* pointer) noexcept;
void* allocate_host(uint64_t bytes);
void release_host(void* pointer) noexcept;

// Loads the code of every kernel in this file (launched.hpp) that the current device can run, and allows each as much
// shared memory as a block has. Toolkits load a kernel when it is first launched, which allocates and waits; with this,
// launches do neither. Throws what allocate throws.
void load_kernels();

Stream create_stream();
void destroy_stream(Stream stream) noexcept;
void synchronize(Stream stream);
// Waits for everything that was enqueued on the device, whatever the stream.
void synchronize_device();
// Host memory that is not from allocate_host has been read, or written, when the call returns.
void copy_to_device(Stream stream, void* device, const void* host, uint64_t bytes);
void copy_to_host(Stream stream, void* host, const void* device, uint64_t bytes);
void copy_on_device(Stream stream, void* to, const void* from, uint64_t bytes);
void fill(Stream stream, void* device, uint8_t value, uint64_t bytes);

Event create_event();
void destroy_event(Event event) noexcept;
void record(Stream stream, Event event);
void wait(Stream stream, Event event);
void synchronize_event(Event event);
// Throws MOERT_FAILED_PRECONDITION for an event that was never recorded.
double seconds_between(Event start, Event stop);

void begin_graph(Stream stream);
// Whether what is enqueued there is recorded for a graph.
bool is_recording(Stream stream);
Graph end_graph(Stream stream);
void launch_graph(Stream stream, Graph graph);
void destroy_graph(Graph graph) noexcept;

}  // namespace moert::gpu
