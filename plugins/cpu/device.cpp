// cpu.device of moert.device/1: host memory, and streams whose work is done at once.
// SPDX-License-Identifier: Apache-2.0
#include "device.hpp"

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>

namespace moert::cpu {
namespace {

constexpr size_t kAlignment = 64;
constexpr uint64_t kAlwaysAsked = uint64_t{1} << 28;  // below, /proc is not read
constexpr char kWhere[] = "cpu.device";
using Clock = std::chrono::steady_clock;

// A point in a stream's order: since work is done when its call returns, it is a point in time.
struct Event {
  std::optional<Clock::time_point> at;
};

void expect_ordinal(int32_t ordinal) {
  if (ordinal != 0)
    throw PluginError(MOERT_INVALID_ARGUMENT,
                      "device cpu:" + std::to_string(ordinal) + ", there is only cpu:0");
}

void expect_stream(const moert_stream_t* stream) {
  if (stream == nullptr) throw PluginError(MOERT_INVALID_ARGUMENT, "the stream is missing");
  if (stream->device.kind != MOERT_DEVICE_CPU)
    throw PluginError(MOERT_INVALID_ARGUMENT, "the stream belongs to another kind of device");
  expect_ordinal(stream->device.ordinal);
}

Event& event_of(void* event) {
  if (event == nullptr) throw PluginError(MOERT_INVALID_ARGUMENT, "the event is missing");
  return *static_cast<Event*>(event);
}

// The value of "key<spaces>: value" in a file of /proc, or nothing.
std::string proc_value(const char* file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const size_t colon = line.find(':');
    const size_t first =
        colon == std::string::npos ? colon : line.find_first_not_of(' ', colon + 1);
    if (first != std::string::npos) return line.substr(first);
  }
  return {};
}

uint64_t proc_memory(std::string_view key) {
  return std::strtoull(proc_value("/proc/meminfo", key).c_str(), nullptr, 10) * 1024;
}

const char* architecture() {
#if defined(__x86_64__)
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi2");
  if (v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return "x86-64-v4";
  if (v3) return "x86-64-v3";
  return __builtin_cpu_supports("sse4.2") ? "x86-64-v2" : "x86-64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "unknown";
#endif
}

int32_t processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int32_t>(std::max<long>(1, sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace

moert_code_t CpuDevice::count(const moert_host_t*, int32_t* out, moert_error_t* error) noexcept {
  return detail::guarded(error, kWhere, [&] {
    if (out == nullptr) throw PluginError(MOERT_INVALID_ARGUMENT, "nowhere to put the count");
    *out = 1;
  });
}

moert_code_t CpuDevice::info(int32_t ordinal, moert_device_info_t* out,
                             moert_error_t* error) noexcept {
  return detail::guarded(error, kWhere, [&] {
    expect_ordinal(ordinal);
    moert_device_info_t all{};
    if (out == nullptr || out->struct_size < sizeof all)
      throw PluginError(MOERT_INVALID_ARGUMENT, "moert_device_info is missing or too small");
    all.struct_size = out->struct_size;
    all.flags = MOERT_DEVICE_HOST_MEMORY;
    all.id = {MOERT_DEVICE_CPU, ordinal};
    all.memory_bytes = proc_memory("MemTotal");
    all.memory_free_bytes = proc_memory("MemAvailable");
    all.compute_units = processors();
    all.warp_size = 1;
    all.alignment = kAlignment;
    const std::string model = proc_value("/proc/cpuinfo", "model name");
    detail::copy_text(all.name, sizeof all.name, model.empty() ? "processor" : model);
    detail::copy_text(all.architecture, sizeof all.architecture, architecture());
    std::memcpy(out, &all, sizeof all);
  });
}

moert_code_t CpuDevice::allocate(int32_t ordinal, uint64_t bytes, void** out,
                                 moert_error_t* error) noexcept {
  return detail::guarded(error, kWhere, [&] {
    expect_ordinal(ordinal);
    if (out == nullptr) throw PluginError(MOERT_INVALID_ARGUMENT, "nowhere to put the pointer");
    *out = nullptr;
    if (bytes == 0) return;
    // More than the machine has is refused here: the system would promise it and fail at first use.
    const bool too_much = bytes > kAlwaysAsked && bytes > proc_memory("MemTotal");
    void* p = nullptr;
    const int code = too_much ? ENOMEM : posix_memalign(&p, kAlignment, bytes);
    if (code != 0)
      throw PluginError(MOERT_RESOURCE_EXHAUSTED,
                        "no memory: " + std::to_string(bytes) + " bytes asked for, " +
                            std::to_string(proc_memory("MemAvailable")) + " available",
                        code);
    *out = p;
  });
}

void CpuDevice::release(int32_t, void* pointer) noexcept { std::free(pointer); }

moert_code_t CpuDevice::stream_create(int32_t ordinal, moert_stream_t* out,
                                      moert_error_t* error) noexcept {
  return detail::guarded(error, kWhere, [&] {
    expect_ordinal(ordinal);
    if (out == nullptr || out->struct_size < sizeof *out)
      throw PluginError(MOERT_INVALID_ARGUMENT, "moert_stream is missing or too small");
    out->flags = 0;
    out->device = {MOERT_DEVICE_CPU, ordinal};
    out->native = nullptr;
  });
}

void CpuDevice::stream_destroy(moert_stream_t*) noexcept {}

moert_code_t CpuDevice::stream_synchronize(const moert_stream_t* stream,
                                           moert_error_t* error) noexcept {
  return detail::guarded(error, kWhere, [&] { expect_stream(stream); });
}

moert_code_t CpuDevice::copy(const moert_stream_t* stream, void* to, const void* from,
                             uint64_t bytes, moert_error_t* error) noexcept {
  return detail::guarded(error, kWhere, [&] {
    expect_stream(stream);
    if (bytes == 0) return;
    if (to == nullptr || from == nullptr)
      throw PluginError(MOERT_INVALID_ARGUMENT,
                        "a copy of " + std::to_string(bytes) + " bytes from or to NULL");
    std::memcpy(to, from, bytes);
  });
}

moert_code_t CpuDevice::fill(const moert_stream_t* stream, void* to, uint8_t value, uint64_t bytes,
                             moert_error_t* error) noexcept {
  return detail::guarded(error, kWhere, [&] {
    expect_stream(stream);
    if (bytes == 0) return;
    if (to == nullptr)
      throw PluginError(MOERT_INVALID_ARGUMENT,
                        "a fill of " + std::to_string(bytes) + " bytes at NULL");
    std::memset(to, value, bytes);
  });
}

moert_code_t CpuDevice::event_create(int32_t ordinal, void** event, moert_error_t* error) noexcept {
  return detail::guarded(error, kWhere, [&] {
    expect_ordinal(ordinal);
    if (event == nullptr) throw PluginError(MOERT_INVALID_ARGUMENT, "nowhere to put the event");
    *event = new Event;
  });
}

void CpuDevice::event_destroy(int32_t, void* event) noexcept { delete static_cast<Event*>(event); }

moert_code_t CpuDevice::event_record(const moert_stream_t* stream, void* event,
                                     moert_error_t* error) noexcept {
  return detail::guarded(error, kWhere, [&] {
    expect_stream(stream);
    event_of(event).at = Clock::now();
  });
}

// Whatever came before an event is done, so nothing ever has to wait for it.
moert_code_t CpuDevice::event_wait(const moert_stream_t* stream, void* event,
                                   moert_error_t* error) noexcept {
  return detail::guarded(error, kWhere, [&] {
    expect_stream(stream);
    event_of(event);
  });
}

moert_code_t CpuDevice::event_synchronize(int32_t ordinal, void* event,
                                          moert_error_t* error) noexcept {
  return detail::guarded(error, kWhere, [&] {
    expect_ordinal(ordinal);
    event_of(event);
  });
}

moert_code_t CpuDevice::event_elapsed(int32_t ordinal, void* start, void* stop, double* seconds,
                                      moert_error_t* error) noexcept {
  return detail::guarded(error, kWhere, [&] {
    expect_ordinal(ordinal);
    const Event& from = event_of(start);
    const Event& to = event_of(stop);
    if (!from.at || !to.at)
      throw PluginError(MOERT_FAILED_PRECONDITION, "an event that was never recorded");
    if (seconds == nullptr) throw PluginError(MOERT_INVALID_ARGUMENT, "nowhere to put the time");
    *seconds = std::chrono::duration<double>(*to.at - *from.at).count();
  });
}

}  // namespace moert::cpu
