// Events and graphs of the simulator.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "../../plugins/gpu/runtime.hpp"
#include "world.hpp"

namespace moert::gpu {

using sim::Capture;
using sim::EventState;
using sim::fail;
using sim::GraphState;
using sim::Mark;
using sim::StreamState;
using sim::Task;
using sim::World;

namespace {

[[noreturn]] void refuse(const std::string& text) {
  fail(MOERT_FAILED_PRECONDITION, sim::kCaptureRefused, text);
}

const Mark& finished(const EventState& event) {
  if (event.latest == nullptr)
    fail(MOERT_FAILED_PRECONDITION, sim::kInvalidHandle,
         "seconds_between: an event was never recorded");
  if (event.latest->capture != nullptr)
    refuse("seconds_between: an event was recorded into a graph");
  if (!event.latest->done)
    fail(MOERT_FAILED_PRECONDITION, sim::kNotReady,
         "seconds_between: an event has not happened yet: wait for it");
  return *event.latest;
}

}  // namespace

Event create_event() {
  World& world = World::get();
  const auto lock = world.lock();
  auto event = std::make_unique<EventState>();
  event->device = World::current_device();
  Event handle = event.get();
  world.events.emplace(handle, std::move(event));
  return handle;
}

void destroy_event(Event handle) noexcept {
  if (handle == nullptr) return;
  World& world = World::get();
  const auto lock = world.lock();
  if (world.events.erase(handle) == 0) sim::stop_process("destroy_event of what is no event");
}

void record(Stream stream_handle, Event handle) {
  World& world = World::get();
  const auto lock = world.lock();
  StreamState& stream = world.stream_for_work(stream_handle, "record");
  EventState& event = world.event(handle, "record");
  if (event.device != stream.device)
    fail(MOERT_INVALID_ARGUMENT, sim::kInvalidHandle,
         "record: the event is one of another device than the stream");
  event.latest = std::make_shared<Mark>();
  event.latest->stream = &stream;
  event.latest->capture = stream.capture;
  if (stream.capture != nullptr) {  // the order of the graph says it all
    event.latest->work = stream.capture->part(stream).work;
    return;
  }
  Task task;
  task.records = event.latest;
  world.enqueue(stream, std::move(task));
}

// A stream that waits for what a capture recorded becomes part of that capture.
void wait(Stream stream_handle, Event handle) {
  World& world = World::get();
  const auto lock = world.lock();
  StreamState& stream = world.stream(stream_handle, "wait");
  const EventState& event = world.event(handle, "wait");
  if (event.latest == nullptr) return;
  const auto& capture = event.latest->capture;
  if (capture == nullptr && stream.capture == nullptr) {
    Task task;
    task.waits_for = event.latest;
    world.enqueue(stream, std::move(task));
  } else if (stream.capture == nullptr) {
    if (capture->graph == nullptr)
      refuse("wait: the event was recorded into a graph that is finished");
    stream.capture = capture;
    capture->parts.push_back({&stream});
  } else if (capture != stream.capture) {
    refuse("wait: a stream that records a graph may not wait for an event from outside of it");
  } else if (event.latest->stream != &stream) {
    int64_t& awaited = capture->part(*event.latest->stream).awaited;
    awaited = std::max(awaited, event.latest->work);
  }
}

void synchronize_event(Event handle) {
  World& world = World::get();
  const auto lock = world.lock();
  world.refuse_in_capture("synchronize_event");
  const EventState& event = world.event(handle, "synchronize_event");
  if (event.latest == nullptr) return;
  if (event.latest->capture != nullptr)
    refuse("synchronize_event: the event was recorded into a graph");
  world.run_until(*event.latest);
}

double seconds_between(Event start, Event stop) {
  World& world = World::get();
  const auto lock = world.lock();
  const Mark& first = finished(world.event(start, "seconds_between"));
  const Mark& last = finished(world.event(stop, "seconds_between"));
  return last.seconds - first.seconds;
}

void begin_graph(Stream handle) {
  World& world = World::get();
  const auto lock = world.lock();
  world.refuse_in_capture("begin_graph");
  StreamState& stream = world.stream_for_work(handle, "begin_graph");
  if (stream.capture != nullptr) refuse("begin_graph: the stream records a graph already");
  auto graph = std::make_unique<GraphState>();
  graph->device = stream.device;
  auto capture = std::make_shared<Capture>();
  capture->origin = &stream;
  capture->parts.push_back({&stream});
  capture->graph = std::move(graph);
  World::thread_capture() = stream.capture = std::move(capture);
}

bool is_recording(Stream handle) {
  World& world = World::get();
  const auto lock = world.lock();
  return world.stream_for_work(handle, "is_recording").capture != nullptr;
}

Graph end_graph(Stream handle) {
  World& world = World::get();
  const auto lock = world.lock();
  const StreamState& stream = world.stream(handle, "end_graph");
  const std::shared_ptr<Capture> capture = World::thread_capture();
  if (capture == nullptr || capture->origin != &stream)
    refuse("end_graph: this thread has not begun a graph with that stream");
  bool loose = false;
  for (const Capture::Part& part : capture->parts) {
    loose |= part.stream != &stream && part.awaited != part.work;
    part.stream->capture = nullptr;
  }
  World::thread_capture() = nullptr;
  std::unique_ptr<GraphState> graph = std::move(capture->graph);
  if (!capture->broken.empty())
    refuse("end_graph: " + capture->broken + " was called during the capture");
  if (loose) refuse("end_graph: the work of a side stream is not waited for");
  Graph made = graph.get();
  world.graphs.emplace(made, std::move(graph));
  return made;
}

void launch_graph(Stream handle, Graph graph_handle) {
  World& world = World::get();
  const auto lock = world.lock();
  StreamState& stream = world.stream_for_work(handle, "launch_graph");
  const GraphState& graph = world.graph(graph_handle, "launch_graph");
  if (stream.capture != nullptr) refuse("launch_graph: the stream records a graph");
  if (graph.device != stream.device)
    fail(MOERT_INVALID_ARGUMENT, sim::kInvalidHandle,
         "launch_graph: the graph is one of another device");
  for (const Task& task : graph.tasks) world.enqueue(stream, task);
}

void destroy_graph(Graph handle) noexcept {
  if (handle == nullptr) return;
  World& world = World::get();
  const auto lock = world.lock();
  if (world.graphs.erase(handle) == 0) sim::stop_process("destroy_graph of what is no graph");
}

}  // namespace moert::gpu
