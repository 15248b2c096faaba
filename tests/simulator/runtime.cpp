// plugins/gpu/runtime.hpp on the simulator. Streams are late: work runs when somebody waits for it, no sooner.
// SPDX-License-Identifier: Apache-2.0
#include "../../plugins/gpu/runtime.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "../../plugins/gpu/backend.hpp"
#include "../../plugins/gpu/port.cuh"
#include "simulator.hpp"
#include "world.hpp"

namespace moert::gpu {

const Backend kBackend = {MOERT_GPU_WORD, kDeviceKind};

}  // namespace moert::gpu

namespace moert::sim {
namespace {

// The exit of the process is the last moment at which a leak can be told.
struct LeakCheck {
  ~LeakCheck() {
    const char* wanted = std::getenv("MOERT_SIM_LEAKS");
    const std::string found = leaks();
    if (wanted != nullptr && *wanted == '1' && !found.empty())
      stop_process("left at the end:\n" + found);
  }
};
const LeakCheck leak_check;

void check_ordinal(const Settings& settings, int32_t ordinal) {
  if (ordinal >= 0 && ordinal < settings.devices) return;
  fail(MOERT_INVALID_ARGUMENT, kInvalidDevice,
       "there is no device " + std::to_string(ordinal) + "; there are " +
           std::to_string(settings.devices));
}

void check_waitable(const StreamState& stream, const char* call) {
  if (stream.capture != nullptr)
    fail(MOERT_FAILED_PRECONDITION, kCaptureRefused,
         std::string(call) + ": the stream records a graph");
}

gpu::DeviceFacts facts_of(World& world, int32_t ordinal) {
  const Settings& settings = world.settings();
  check_ordinal(settings, ordinal);
  gpu::DeviceFacts facts;
  facts.name = "MoERT simulator " + std::to_string(ordinal);
  facts.architecture = MOERT_GPU_WORD;
  facts.memory = settings.memory;
  facts.memory_free = world.free_bytes(ordinal);
  facts.multiprocessors = 4;
  facts.warp = MOERT_SIM_WARP;
  facts.layout = settings.layout;
  facts.shared_bytes = settings.layout == gpu::LayoutId::nv ? 227u << 10 : 64u << 10;
  return facts;
}

void check_launch(World& world, const StreamState& stream, const KernelCall& call) {
  const gpu::DeviceFacts facts = facts_of(world, stream.device);
  std::string wrong;
  if (call.blocks_x == 0 || call.blocks_y == 0 || call.blocks_x > 0x7fffffffu ||
      call.blocks_y > 65535)
    wrong = "a grid of " + std::to_string(call.blocks_x) + " x " + std::to_string(call.blocks_y) +
            " blocks";
  else if (call.threads == 0 || call.threads > 1024 || call.threads % MOERT_SIM_WARP != 0)
    wrong = "blocks of " + std::to_string(call.threads) + " threads";
  else if (uint64_t{call.blocks_x} * call.threads > world.settings().grid_threads)
    wrong = std::to_string(call.blocks_x) + " blocks of " + std::to_string(call.threads) +
            " threads, where a grid has " + std::to_string(world.settings().grid_threads) +
            " threads along x at most,";
  else if (call.shared_bytes > facts.shared_bytes)
    wrong = std::to_string(call.shared_bytes) + " bytes of shared memory, of which there are " +
            std::to_string(facts.shared_bytes) + ",";
  if (!wrong.empty())
    fail(MOERT_INTERNAL, kInvalidConfiguration,
         "a kernel with " + wrong + " cannot be launched (" + call.at.file + ":" +
             std::to_string(call.at.line) + ")");
}

}  // namespace

std::string leaks() {
  World& world = World::get();
  const auto lock = world.lock();
  return world.leaks();
}

void read_environment_again() {
  World& world = World::get();
  const auto lock = world.lock();
  const std::string left = world.leaks();
  if (!left.empty()) stop_process("the environment may not change while there is\n" + left);
  world.forget_settings();
}

int64_t most_grid_threads() {
  World& world = World::get();
  const auto lock = world.lock();
  return static_cast<int64_t>(world.settings().grid_threads);
}

void enqueue(void* handle, const gpu::LaunchedKernel& kernel, Work work) {
  World& world = World::get();
  const auto lock = world.lock();
  StreamState& stream = world.stream_for_work(handle, "launch");
  work.call.warp = MOERT_SIM_WARP;
  check_launch(world, stream, work.call);
  if (!world.loaded(stream.device, kernel.address())) {
    world.break_capture("launch of a kernel that is not loaded");
    fail(MOERT_FAILED_PRECONDITION, kNotLoaded,
         "a kernel that is not loaded on device " + std::to_string(stream.device) +
             " is launched (" + work.call.at.file + ":" + std::to_string(work.call.at.line) +
             "): that would allocate; call load_kernels before");
  }
  Task task;
  task.work = [work = std::move(work)] { run(work.call); };
  world.enqueue(stream, std::move(task));
}

}  // namespace moert::sim

namespace moert::gpu {

using sim::fail;
using sim::StreamState;
using sim::Task;
using sim::World;

int32_t device_count() {
  World& world = World::get();
  const auto lock = world.lock();
  const int32_t count = world.settings().devices;
  if (count == 0) fail(MOERT_UNAVAILABLE, sim::kNoDevice, "no device: MOERT_SIM_DEVICES is 0");
  return count;
}

DeviceFacts device_facts(int32_t ordinal) {
  World& world = World::get();
  const auto lock = world.lock();
  return sim::facts_of(world, ordinal);
}

const DeviceFacts& remembered_facts(int32_t ordinal) {
  World& world = World::get();
  const auto lock = world.lock();
  sim::check_ordinal(world.settings(), ordinal);
  // By layout as well: a test may have the environment read again.
  static std::map<std::pair<int32_t, LayoutId>, DeviceFacts> remembered;
  const auto [entry, fresh] = remembered.try_emplace({ordinal, world.settings().layout});
  if (fresh) {
    entry->second = sim::facts_of(world, ordinal);
    entry->second.memory_free = 0;
  }
  return entry->second;
}

CurrentDevice::CurrentDevice(int32_t ordinal) {
  World& world = World::get();
  const auto lock = world.lock();
  sim::check_ordinal(world.settings(), ordinal);
  before_ = World::current_device();
  World::current_device() = ordinal;
}
CurrentDevice::~CurrentDevice() { World::current_device() = before_; }

void* allocate(uint64_t bytes) {
  World& world = World::get();
  const auto lock = world.lock();
  world.refuse_in_capture("allocate");
  sim::check_ordinal(world.settings(), World::current_device());
  return bytes == 0 ? nullptr : world.allocate(World::current_device(), bytes);
}

void release(void* pointer) noexcept {
  if (pointer == nullptr) return;
  World& world = World::get();
  const auto lock = world.lock();
  world.break_capture("release");
  world.release(pointer);
}

void* allocate_host(uint64_t bytes) {
  World& world = World::get();
  const auto lock = world.lock();
  world.refuse_in_capture("allocate_host");
  sim::check_ordinal(world.settings(), World::current_device());
  return bytes == 0 ? nullptr : world.allocate_host(World::current_device(), bytes);
}

void release_host(void* pointer) noexcept {
  if (pointer == nullptr) return;
  World& world = World::get();
  const auto lock = world.lock();
  world.break_capture("release_host");
  world.release_host(pointer);
}

void load_kernels() {
  World& world = World::get();
  const auto lock = world.lock();
  world.refuse_in_capture("load_kernels");
  sim::check_ordinal(world.settings(), World::current_device());
  for (const auto* kernel = LaunchedKernel::first(); kernel != nullptr; kernel = kernel->next())
    world.load(World::current_device(), kernel->address());
}

Stream create_stream() {
  World& world = World::get();
  const auto lock = world.lock();
  sim::check_ordinal(world.settings(), World::current_device());
  auto stream = std::make_unique<StreamState>();
  stream->device = World::current_device();
  Stream handle = stream.get();
  world.streams.emplace(handle, std::move(stream));
  return handle;
}

void destroy_stream(Stream handle) noexcept {
  if (handle == nullptr) return;
  World& world = World::get();
  const auto lock = world.lock();
  const auto found = world.streams.find(handle);
  if (found == world.streams.end()) sim::stop_process("destroy_stream of what is no stream");
  if (found->second->capture != nullptr)
    sim::stop_process("destroy_stream while it records a graph");
  world.run(*found->second);
  world.streams.erase(found);
}

void synchronize(Stream handle) {
  World& world = World::get();
  const auto lock = world.lock();
  world.refuse_in_capture("synchronize");
  StreamState& stream = world.stream(handle, "synchronize");
  sim::check_waitable(stream, "synchronize");
  world.run(stream);
}

void synchronize_device() {
  World& world = World::get();
  const auto lock = world.lock();
  world.refuse_in_capture("synchronize_device");
  for (const auto& [handle, stream] : world.streams)
    if (stream->device == World::current_device())
      sim::check_waitable(*stream, "synchronize_device");
  world.run_device(World::current_device());
}

void copy_to_device(Stream handle, void* device, const void* host, uint64_t bytes) {
  if (bytes == 0) return;
  World& world = World::get();
  const auto lock = world.lock();
  StreamState& stream = world.stream_for_work(handle, "copy_to_device");
  world.check_device_range(device, bytes, stream.device, "copy_to_device");
  const bool pinned = world.pinned(host, bytes, "copy_to_device");
  if (!pinned)
    world.refuse_in_capture("copy_to_device of host memory that is not from allocate_host");
  Task task;
  task.work = [=] { std::memcpy(device, host, bytes); };
  if (pinned) task.host = host;
  world.enqueue(stream, std::move(task));
  if (!pinned) world.run(stream);  // as toolkits may: whoever wants no wait has pinned memory
}

void copy_to_host(Stream handle, void* host, const void* device, uint64_t bytes) {
  if (bytes == 0) return;
  World& world = World::get();
  const auto lock = world.lock();
  StreamState& stream = world.stream_for_work(handle, "copy_to_host");
  world.check_device_range(device, bytes, stream.device, "copy_to_host");
  const bool pinned = world.pinned(host, bytes, "copy_to_host");
  if (!pinned)
    world.refuse_in_capture("copy_to_host of host memory that is not from allocate_host");
  Task task;
  task.work = [=] { std::memcpy(host, device, bytes); };
  if (pinned) task.host = host;
  world.enqueue(stream, std::move(task));
  if (!pinned) world.run(stream);
}

void copy_on_device(Stream handle, void* to, const void* from, uint64_t bytes) {
  if (bytes == 0) return;
  World& world = World::get();
  const auto lock = world.lock();
  StreamState& stream = world.stream_for_work(handle, "copy_on_device");
  world.check_device_range(to, bytes, stream.device, "copy_on_device");
  world.check_device_range(from, bytes, stream.device, "copy_on_device");
  Task task;
  task.work = [=] { std::memcpy(to, from, bytes); };
  world.enqueue(stream, std::move(task));
}

void fill(Stream handle, void* device, uint8_t value, uint64_t bytes) {
  if (bytes == 0) return;
  World& world = World::get();
  const auto lock = world.lock();
  StreamState& stream = world.stream_for_work(handle, "fill");
  world.check_device_range(device, bytes, stream.device, "fill");
  Task task;
  task.work = [=] { std::memset(device, value, bytes); };
  world.enqueue(stream, std::move(task));
}

}  // namespace moert::gpu
