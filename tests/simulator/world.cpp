// Memory that is exact and poisoned, and streams that run only as far as somebody needs.
// SPDX-License-Identifier: Apache-2.0
#include "world.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace moert::sim {
namespace {

uint64_t number_from(const char* variable, uint64_t fallback, uint64_t most, uint64_t least = 0) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return fallback;
  char* end = nullptr;
  const uint64_t value = std::strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end != '\0' || value > most || value < least)
    fail(MOERT_INVALID_ARGUMENT, kInvalidValue,
         std::string(variable) + "='" + text + "' is not a number " +
             (least == 0 ? "" : "from " + std::to_string(least) + " ") + "up to " +
             std::to_string(most));
  return value;
}

gpu::LayoutId layout_from_environment() {
  const char* text = std::getenv("MOERT_SIM_LAYOUT");
  const std::string word = text == nullptr ? "" : text;
#if MOERT_SIM_WARP == 64
  if (word.empty() || word == "cdna") return gpu::LayoutId::cdna;
  const char* known = "cdna";
#else
  if (word.empty() || word == "nv") return gpu::LayoutId::nv;
  if (word == "rdna") return gpu::LayoutId::rdna;
  const char* known = "nv or rdna";
#endif
  fail(MOERT_INVALID_ARGUMENT, kInvalidValue,
       "MOERT_SIM_LAYOUT='" + word + "': this simulator has " + known);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class Map>
auto& find_handle(Map& map, void* handle, const char* call, const char* what) {
  const auto found = map.find(handle);
  if (found == map.end())
    fail(MOERT_INVALID_ARGUMENT, kInvalidHandle, std::string(call) + ": there is no such " + what);
  return *found->second;
}

}  // namespace

void fail(moert_code_t code, Number number, const std::string& text) {
  throw PluginError(
      code, std::string(gpu::kBackend.word) + " error " + std::to_string(number) + ": " + text,
      number);
}

void stop_process(const std::string& text) {
  std::fprintf(stderr, "MoERT simulator: %s\n", text.c_str());
  std::abort();
}

World& World::get() {
  static World* world = new World;  // outlives whatever is released at the end of the process
  return *world;
}

const Settings& World::settings() {
  if (settings_ != nullptr) return *settings_;
  auto read = std::make_unique<Settings>();
  read->devices = static_cast<int32_t>(number_from("MOERT_SIM_DEVICES", 2, 64));
  read->memory = number_from("MOERT_SIM_MEMORY_MB", 4096, uint64_t{1} << 24) << 20;
  read->grid_threads = number_from("MOERT_SIM_GRID_THREADS", 0xffffffff, 0xffffffff, 256);
  read->layout = layout_from_environment();
  settings_ = std::move(read);
  used_.resize(static_cast<size_t>(settings_->devices));
  return *settings_;
}

StreamState& World::stream(void* handle, const char* call) {
  return find_handle(streams, handle, call, "stream");
}
EventState& World::event(void* handle, const char* call) {
  return find_handle(events, handle, call, "event");
}
GraphState& World::graph(void* handle, const char* call) {
  return find_handle(graphs, handle, call, "graph");
}

void World::enqueue(StreamState& stream, Task task) {
  if (stream.capture == nullptr) {
    stream.queue.push_back(std::move(task));
    return;
  }
  stream.capture->graph->tasks.push_back(std::move(task));
  ++stream.capture->part(stream).work;
}

Capture::Part& Capture::part(const StreamState& stream) {
  return *std::find_if(parts.begin(), parts.end(),
                       [&](const Part& part) { return part.stream == &stream; });
}

void World::step(StreamState& stream) {
  const Task task = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (task.waits_for != nullptr) run_until(*task.waits_for);
  if (task.work) task.work();
  if (task.records != nullptr) {
    task.records->seconds = now();
    task.records->done = true;
  }
}

void World::run(StreamState& stream) {
  while (!stream.queue.empty()) step(stream);
}

// The record stands in its stream's queue until it is done: a stream that is destroyed runs to its end first.
void World::run_until(Mark& mark) {
  while (!mark.done) step(*mark.stream);
}

void World::run_device(int32_t device) {
  for (const auto& [handle, stream] : streams)
    if (stream->device == device) run(*stream);
}

void* World::add(Memory& memory, int32_t device, uint64_t bytes) {
  Guarded block(bytes);
  unsigned char* start = block.data();
  memory.emplace(reinterpret_cast<uintptr_t>(start), Allocation{device, std::move(block)});
  return start;
}

uint64_t World::free_bytes(int32_t device) {
  return settings().memory - used_[static_cast<size_t>(device)];
}

void* World::allocate(int32_t device, uint64_t bytes) {
  const uint64_t free = free_bytes(device);
  if (bytes > free)
    fail(MOERT_RESOURCE_EXHAUSTED, kOutOfMemory,
         "out of memory: " + std::to_string(bytes) + " bytes were asked for, " +
             std::to_string(free) + " are free on device " + std::to_string(device));
  void* start = add(device_memory_, device, bytes);
  used_[static_cast<size_t>(device)] += bytes;
  return start;
}

void* World::allocate_host(int32_t device, uint64_t bytes) {
  return add(host_memory_, device, bytes);
}

void World::free_one(Memory& memory, void* pointer, const char* call) {
  const auto found = memory.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == memory.end())
    stop_process(std::string(call) + " of a pointer that was not allocated so");
  if (!found->second.memory.intact())
    stop_process(std::string(call) + ": something wrote outside of this memory");
  memory.erase(found);
}

void World::release(void* pointer) {
  const auto found = device_memory_.find(reinterpret_cast<uintptr_t>(pointer));
  if (found != device_memory_.end()) {
    run_device(found->second.device);
    used_[static_cast<size_t>(found->second.device)] -= found->second.memory.size();
  }
  free_one(device_memory_, pointer, "release");
}

void World::release_host(void* pointer) {
  const auto found = host_memory_.find(reinterpret_cast<uintptr_t>(pointer));
  if (found != host_memory_.end()) {
    const unsigned char* start = found->second.memory.data();
    for (const auto& [handle, stream] : streams)
      for (const Task& task : stream->queue) {
        const auto* host = static_cast<const unsigned char*>(task.host);
        if (host != nullptr && host >= start && host < start + found->second.memory.size())
          stop_process(
              "release_host of memory that a copy in a stream still needs: synchronise first");
      }
  }
  free_one(host_memory_, pointer, "release_host");
}

// The allocation that `pointer` lies in; NULL if there is none.
const World::Allocation* World::holder(const Memory& memory, const void* pointer, uint64_t bytes,
                                       const char* call) const {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  auto found = memory.upper_bound(address);
  if (found == memory.begin()) return nullptr;
  --found;
  const uint64_t offset = address - found->first, size = found->second.memory.size();
  if (offset >= size) return nullptr;
  if (bytes > size - offset)
    fail(MOERT_INVALID_ARGUMENT, kInvalidValue,
         std::string(call) + ": " + std::to_string(bytes) + " bytes from byte " +
             std::to_string(offset) + " on are more than the allocation's " + std::to_string(size));
  return &found->second;
}

void World::check_device_range(const void* pointer, uint64_t bytes, int32_t device,
                               const char* call) {
  const Allocation* found = holder(device_memory_, pointer, bytes, call);
  if (found == nullptr)
    fail(MOERT_INVALID_ARGUMENT, kInvalidValue,
         std::string(call) + ": the pointer is not one of device memory");
  if (found->device != device)
    fail(MOERT_INVALID_ARGUMENT, kInvalidValue,
         std::string(call) + ": the memory is that of device " + std::to_string(found->device) +
             ", the stream of " + std::to_string(device));
}

bool World::pinned(const void* pointer, uint64_t bytes, const char* call) {
  if (holder(device_memory_, pointer, bytes, call) != nullptr)
    fail(MOERT_INVALID_ARGUMENT, kInvalidValue,
         std::string(call) + ": device memory stands where host memory is due");
  return holder(host_memory_, pointer, bytes, call) != nullptr;
}

int32_t& World::current_device() {
  static thread_local int32_t device = 0;
  return device;
}

StreamState& World::stream_for_work(void* handle, const char* call) {
  StreamState& found = stream(handle, call);
  if (found.device != current_device())
    fail(MOERT_INVALID_ARGUMENT, kInvalidHandle,
         std::string(call) + ": the stream is one of device " + std::to_string(found.device) +
             ", the current device is " + std::to_string(current_device()));
  return found;
}

std::shared_ptr<Capture>& World::thread_capture() {
  static thread_local std::shared_ptr<Capture> capture;
  return capture;
}

void World::break_capture(const char* call) {
  const std::shared_ptr<Capture>& capture = thread_capture();
  if (capture != nullptr && capture->broken.empty()) capture->broken = call;
}

void World::refuse_in_capture(const char* call) {
  if (thread_capture() == nullptr) return;
  break_capture(call);
  fail(
      MOERT_FAILED_PRECONDITION, kCaptureRefused,
      std::string(call) +
          " while this thread captures a graph: neither memory nor waiting may be asked for there");
}

std::string World::leaks() const {
  std::map<int32_t, std::map<std::string, int>> counts;
  for (const auto& [start, allocation] : device_memory_) ++counts[allocation.device]["allocations"];
  for (const auto& [handle, stream] : streams) ++counts[stream->device]["streams"];
  for (const auto& [handle, event] : events) ++counts[event->device]["events"];
  for (const auto& [handle, graph] : graphs) ++counts[graph->device]["graphs"];
  std::string text;
  for (const auto& [device, kinds] : counts) {
    text += "device " + std::to_string(device) + ":";
    for (const auto& [kind, count] : kinds) text += " " + std::to_string(count) + " " + kind;
    text += "\n";
  }
  return text;
}

}  // namespace moert::sim
