// What exists on the simulated machine: devices, their memory, streams, events, graphs. One lock guards it all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/error.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../../plugins/gpu/runtime.hpp"
#include "guarded.hpp"

namespace moert::sim {

struct StreamState;

// Numbers of errors, as toolkits have them.
enum Number : int64_t {
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidConfiguration = 9,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidHandle = 400,
  kNotReady = 600,
  kCaptureRefused = 900,
  kNotLoaded = 913,
};

struct Capture;

// One record of an event: a place in a stream's order.
struct Mark {
  StreamState* stream = nullptr;
  std::shared_ptr<Capture> capture;  // where it was recorded into a graph
  int64_t work = 0;                  // of its stream, before it in that graph
  bool done = false;
  double seconds = 0;
};

// What waits in a stream. Pinned memory that it touches is told, so that its release can be refused.
struct Task {
  std::function<void()> work;
  std::shared_ptr<Mark> waits_for;
  std::shared_ptr<Mark> records;
  const void* host = nullptr;
};

struct StreamState {
  int32_t device = 0;
  std::deque<Task> queue;
  std::shared_ptr<Capture> capture;
};
struct EventState {
  int32_t device = 0;
  std::shared_ptr<Mark> latest;
};
struct GraphState {
  int32_t device = 0;
  std::vector<Task> tasks;
};

// A graph that is being recorded: the work of its streams in the order in which it was asked for.
struct Capture {
  StreamState* origin = nullptr;
  // Origin, and the streams that waited for what was recorded here; how much work each has put in,
  // and how much of that another stream waits for.
  struct Part {
    StreamState* stream;
    int64_t work = 0, awaited = -1;
  };
  std::vector<Part> parts;
  Part& part(const StreamState& stream);
  std::unique_ptr<GraphState> graph;  // NULL when the capture has ended
  std::string broken;                 // the call that a capture does not allow
};

struct Settings {
  int32_t devices = 2;
  uint64_t memory = 0;
  uint64_t grid_threads = 0;  // most along x
  gpu::LayoutId layout = gpu::LayoutId::nv;
};

class World {
 public:
  static World& get();

  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  const Settings&
  settings();  // read when they are first asked for; throws for what it does not understand
  void forget_settings() {
    settings_.reset();
    kernels_.clear();
  }

  StreamState& stream(void* handle, const char* call);
  EventState& event(void* handle, const char* call);
  GraphState& graph(void* handle, const char* call);

  void enqueue(StreamState& stream, Task task);
  void run(StreamState& stream);
  void run_until(Mark& mark);
  void run_device(int32_t device);

  void* allocate(int32_t device, uint64_t bytes);
  void* allocate_host(int32_t device, uint64_t bytes);
  void release(void* pointer);
  void release_host(void* pointer);
  uint64_t free_bytes(int32_t device);
  void load(int32_t device, const void* kernel) { kernels_.emplace(device, kernel); }
  bool loaded(int32_t device, const void* kernel) const {
    return kernels_.count({device, kernel}) != 0;
  }
  void check_device_range(const void* pointer, uint64_t bytes, int32_t device, const char* call);
  bool pinned(const void* pointer, uint64_t bytes, const char* call);

  static int32_t& current_device();  // of the calling thread
  // The stream for a call that puts work into it: it must be one of the current device.
  StreamState& stream_for_work(void* handle, const char* call);

  // The capture that the calling thread has begun.
  static std::shared_ptr<Capture>& thread_capture();
  // Breaks the calling thread's capture and throws, if there is one.
  void refuse_in_capture(const char* call);
  // The same where nothing may be thrown: end_graph tells.
  void break_capture(const char* call);

  std::string leaks() const;

  std::map<void*, std::unique_ptr<StreamState>> streams;
  std::map<void*, std::unique_ptr<EventState>> events;
  std::map<void*, std::unique_ptr<GraphState>> graphs;

 private:
  struct Allocation {
    int32_t device;
    Guarded memory;
  };
  using Memory = std::map<uintptr_t, Allocation>;
  void* add(Memory& memory, int32_t device, uint64_t bytes);
  const Allocation* holder(const Memory& memory, const void* pointer, uint64_t bytes,
                           const char* call) const;
  void free_one(Memory& memory, void* pointer, const char* call);
  void step(StreamState& stream);

  std::mutex mutex_;
  std::unique_ptr<Settings> settings_;
  std::vector<uint64_t> used_;
  Memory device_memory_, host_memory_;
  std::set<std::pair<int32_t, const void*>> kernels_;  // that are loaded
};

[[noreturn]] void fail(moert_code_t code, Number number, const std::string& text);
[[noreturn]] void stop_process(const std::string& text);

}  // namespace moert::sim
