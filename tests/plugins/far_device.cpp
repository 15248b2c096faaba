// SPDX-License-Identifier: Apache-2.0
#include "far_device.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

namespace zoo {
namespace {

using moert::PluginError;
using moert::detail::guarded;
using Queue = std::vector<std::function<void()>>;

constexpr char kWhere[] = "far.device";

struct Block {
  uint64_t bytes;
  char*
      inside;  // of device memory: the same pages, where they can be read; NULL: pinned host memory
};
struct Memory {
  std::mutex mutex;
  std::map<const char*, Block> blocks;
};
Memory& memory() {
  static Memory all;
  return all;
}
std::atomic<int> waits{0};

// The block that `pointer` lies in, or nothing.
std::pair<const char*, Block> block_of(const void* pointer) {
  const std::lock_guard lock(memory().mutex);
  const auto* at = static_cast<const char*>(pointer);
  auto found = memory().blocks.upper_bound(at);
  if (found == memory().blocks.begin()) return {};
  --found;
  if (at >= found->first + found->second.bytes) return {};
  return *found;
}

bool is_pinned(const void* pointer) {
  const auto [begin, block] = block_of(pointer);
  return begin != nullptr && block.inside == nullptr;
}

uint64_t mapped(uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

moert_code_t unimplemented(moert_error_t* error) {
  return guarded(error, kWhere, [] { throw PluginError(MOERT_UNIMPLEMENTED, "no events"); });
}

}  // namespace

void enqueue(const moert_stream_t* stream, std::function<void()> work) {
  if (stream->device.kind != kFarKind)
    throw PluginError(MOERT_INVALID_ARGUMENT, "a stream of another device");
  static_cast<Queue*>(stream->native)->push_back(std::move(work));
}

void finish(const moert_stream_t* stream) {
  Queue work;
  work.swap(*static_cast<Queue*>(stream->native));
  for (const auto& one : work) one();
}

void* inside(const void* pointer) {
  if (pointer == nullptr) return nullptr;
  const auto [begin, block] = block_of(pointer);
  if (begin == nullptr || block.inside == nullptr)
    throw PluginError(MOERT_INVALID_ARGUMENT, "not memory of this device");
  return block.inside + (static_cast<const char*>(pointer) - begin);
}

moert_code_t FarDevice::count(const moert_host_t*, int32_t* out, moert_error_t*) noexcept {
  *out = 1;
  return MOERT_OK;
}

moert_code_t FarDevice::info(int32_t, moert_device_info_t* out, moert_error_t*) noexcept {
  out->id = {kFarKind, 0};
  out->memory_bytes = uint64_t{1} << 30;
  out->compute_units = out->warp_size = 1;
  out->alignment = 256;
  moert::detail::copy_text(out->name, sizeof out->name, "far");
  moert::detail::copy_text(out->architecture, sizeof out->architecture, "far");
  moert::detail::copy_text(out->driver_version, sizeof out->driver_version,
                           std::to_string(waits.load()));
  return MOERT_OK;
}

moert_code_t FarDevice::alloc(int32_t, uint64_t bytes, void** out, moert_error_t* error) noexcept {
  return guarded(error, kWhere, [&] {
    *out = nullptr;
    if (bytes == 0) return;
    const uint64_t size = mapped(bytes);
    const int file = ::memfd_create("far", 0);
    if (file < 0 || ::ftruncate(file, static_cast<off_t>(size)) != 0)
      throw PluginError(MOERT_RESOURCE_EXHAUSTED, "no memory");
    void* outer = ::mmap(nullptr, size, PROT_NONE, MAP_SHARED, file, 0);
    void* inner = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (outer == MAP_FAILED || inner == MAP_FAILED)
      throw PluginError(MOERT_RESOURCE_EXHAUSTED, "no memory");
    const std::lock_guard lock(memory().mutex);
    memory().blocks[static_cast<char*>(outer)] = {bytes, static_cast<char*>(inner)};
    *out = outer;
  });
}

void FarDevice::release(int32_t, void* pointer) noexcept {
  const auto [begin, block] = block_of(pointer);
  if (begin == nullptr) return;
  const std::lock_guard lock(memory().mutex);
  memory().blocks.erase(begin);
  ::munmap(pointer, mapped(block.bytes));
  ::munmap(block.inside, mapped(block.bytes));
}

moert_code_t FarDevice::alloc_host(int32_t, uint64_t bytes, void** out,
                                   moert_error_t* error) noexcept {
  return guarded(error, kWhere, [&] {
    *out = bytes == 0 ? nullptr : std::malloc(bytes);
    if (*out == nullptr) return;
    const std::lock_guard lock(memory().mutex);
    memory().blocks[static_cast<char*>(*out)] = {bytes, nullptr};
  });
}

void FarDevice::free_host(int32_t, void* pointer) noexcept {
  if (pointer == nullptr) return;
  const std::lock_guard lock(memory().mutex);
  memory().blocks.erase(static_cast<char*>(pointer));
  std::free(pointer);
}

moert_code_t FarDevice::stream_create(int32_t, moert_stream_t* out, moert_error_t*) noexcept {
  out->device = {kFarKind, 0};
  out->native = new Queue;
  return MOERT_OK;
}

void FarDevice::stream_destroy(moert_stream_t* stream) noexcept {
  finish(stream);
  delete static_cast<Queue*>(stream->native);
}

moert_code_t FarDevice::synchronize(const moert_stream_t* stream, moert_error_t* error) noexcept {
  return guarded(error, kWhere, [&] {
    ++waits;
    finish(stream);
  });
}

moert_code_t FarDevice::to_device(const moert_stream_t* stream, void* to, const void* from,
                                  uint64_t bytes, moert_error_t* error) noexcept {
  return guarded(error, kWhere, [&] {
    const auto* begin = static_cast<const char*>(from);
    enqueue(stream, [to = inside(to), rows = std::vector<char>(begin, begin + bytes)] {
      std::memcpy(to, rows.data(), rows.size());
    });
  });
}

moert_code_t FarDevice::to_host(const moert_stream_t* stream, void* to, const void* from,
                                uint64_t bytes, moert_error_t* error) noexcept {
  return guarded(error, kWhere, [&] {
    enqueue(stream, [to, from = inside(from), bytes] { std::memcpy(to, from, bytes); });
    if (is_pinned(to)) return;
    ++waits;
    finish(stream);
  });
}

moert_code_t FarDevice::copy(const moert_stream_t* stream, void* to, const void* from,
                             uint64_t bytes, moert_error_t* error) noexcept {
  return guarded(error, kWhere, [&] {
    enqueue(stream,
            [to = inside(to), from = inside(from), bytes] { std::memcpy(to, from, bytes); });
  });
}

moert_code_t FarDevice::fill(const moert_stream_t* stream, void* to, uint8_t value, uint64_t bytes,
                             moert_error_t* error) noexcept {
  return guarded(error, kWhere, [&] {
    enqueue(stream, [to = inside(to), value, bytes] { std::memset(to, value, bytes); });
  });
}

moert_code_t FarDevice::event_create(int32_t, void**, moert_error_t* error) noexcept {
  return unimplemented(error);
}
moert_code_t FarDevice::event_of_stream(const moert_stream_t*, void*,
                                        moert_error_t* error) noexcept {
  return unimplemented(error);
}
moert_code_t FarDevice::event_wait_for(int32_t, void*, moert_error_t* error) noexcept {
  return unimplemented(error);
}
moert_code_t FarDevice::event_elapsed(int32_t, void*, void*, double*,
                                      moert_error_t* error) noexcept {
  return unimplemented(error);
}

}  // namespace zoo
