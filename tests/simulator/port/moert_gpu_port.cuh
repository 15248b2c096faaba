// What plugins/gpu/port.cuh promises, on the simulator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <tuple>
#include <type_traits>

#include "../../../plugins/gpu/launched.hpp"
#include "../engine.hpp"
#include "../instructions.hpp"

#define MOERT_KERNEL
#define MOERT_BOUNDS(t, b)
#define MOERT_DEVICE inline
#define MOERT_CALLED [[gnu::noinline]] inline
#define MOERT_BOTH inline
#define MOERT_UNROLL
#define MOERT_ROLL
#if MOERT_SIM_WARP == 64
#define MOERT_LAYOUTS(X) X(LayoutCdna)
#else
#define MOERT_LAYOUTS(X) X(LayoutNv) X(LayoutRdna)
#endif

namespace moert::sim {

// A kernel with its arguments, which it owns: a queue keeps it, a graph runs it again.
struct Work {
  KernelCall call;
  std::shared_ptr<const void> arguments;
};

// Of a grid along x, by MOERT_SIM_GRID_THREADS. Throws PluginError where the environment makes no sense.
int64_t most_grid_threads();

// Puts it into a stream. Throws PluginError for what a toolkit would refuse, and for a kernel that load_kernels has not
// loaded on the device.
void enqueue(void* stream, const gpu::LaunchedKernel& kernel, Work work);

template <class... P>
Work work_of(void (*kernel)(P...), gpu::Grid grid, int threads, uint32_t shared_bytes, Site at,
             P... arguments) {
  using Values = std::tuple<void (*)(P...), P...>;
  static_assert((std::is_trivially_copyable_v<P> && ...),
                "arguments of kernels are copied to the device");
  static_assert((sizeof(P) + ... + 0) <= 4096, "a toolkit takes 4096 bytes of arguments at most");
  auto values = std::make_shared<const Values>(kernel, arguments...);
  Work work;
  work.call.blocks_x = grid.x;
  work.call.blocks_y = grid.y;
  work.call.threads = threads < 0 ? 0u : static_cast<unsigned>(threads);
  work.call.shared_bytes = shared_bytes;
  work.call.body = [](const void* packed) {
    std::apply([](auto* function, auto... given) { function(given...); },
               *static_cast<const Values*>(packed));
  };
  work.call.arguments = values.get();
  work.call.at = at;
  work.arguments = std::move(values);
  return work;
}

// Runs a kernel at once, without a device: for tests of the engine and of kernels by themselves.
template <class... P>
void run_now(int warp, void (*kernel)(P...), gpu::Grid grid, int threads, uint32_t shared_bytes,
             std::decay_t<P>... arguments) {
  Work work = work_of(kernel, grid, threads, shared_bytes, Site{"run_now", 0}, arguments...);
  work.call.warp = warp;
  run(work.call);
}

}  // namespace moert::sim

namespace moert::gpu {

using sim::Site;

inline int thread() { return static_cast<int>(sim::current.thread); }
inline int threads() { return static_cast<int>(sim::current.threads); }
inline int block_x() { return static_cast<int>(sim::current.block_x); }
inline int block_y() { return static_cast<int>(sim::current.block_y); }
inline int blocks_x() { return static_cast<int>(sim::current.blocks_x); }
inline int blocks_y() { return static_cast<int>(sim::current.blocks_y); }

inline void sync_block(Site at = Site::here()) { sim::sync_block(at); }

template <int W>
inline void sync_warp(Site at = Site::here()) {
  const char nothing = 0;
  sim::exchange(W, sim::Op::sync_warp, at, nothing);
}

namespace detail {

template <int W, class T>
inline const sim::Slot* hand_in(const T& v, sim::Op op, Site at) {
  static_assert(W == 32 || W == 64, "warps have 32 or 64 lanes");
  static_assert((sizeof(T) == 4 || sizeof(T) == 8) && std::is_trivially_copyable_v<T>,
                "values of 4 or 8 bytes");
  return sim::exchange(W, op, at, v);
}

template <class T>
inline T taken(const sim::Slot* slots, int lane) {
  T value;
  std::memcpy(&value, slots[lane], sizeof value);
  return value;
}

}  // namespace detail

template <int W, class T>
inline T shuffle(T v, int lane, Site at = Site::here()) {
  if (lane < 0 || lane >= W) sim::die("shuffle from a lane that does not exist", at);
  return detail::taken<T>(detail::hand_in<W>(v, sim::Op::shuffle, at), lane);
}

template <int W, class T>
inline T shuffle_xor(T v, int mask, Site at = Site::here()) {
  if (mask < 0 || mask >= W) sim::die("shuffle_xor by a mask that leaves the warp", at);
  return detail::taken<T>(detail::hand_in<W>(v, sim::Op::shuffle_xor, at), (thread() % W) ^ mask);
}

template <int W, class T>
inline T shuffle_up(T v, int delta, Site at = Site::here()) {
  if (delta < 0 || delta >= W) sim::die("shuffle_up by more than a warp", at);
  const int lane = thread() % W;
  const sim::Slot* slots = detail::hand_in<W>(v, sim::Op::shuffle_up, at);
  return lane < delta ? v : detail::taken<T>(slots, lane - delta);
}

template <int W>
inline uint64_t ballot(bool p, Site at = Site::here()) {
  const sim::Slot* slots = detail::hand_in<W>(uint32_t{p}, sim::Op::ballot, at);
  uint64_t votes = 0;
  for (int lane = 0; lane < W; ++lane)
    votes |= uint64_t{detail::taken<uint32_t>(slots, lane)} << lane;
  return votes;
}

inline unsigned char* shared() { return sim::current.shared; }

// Other streams' kernels never run at the same time, but the host may look on.
template <class T>
inline T atomic_add(T* p, T v) {
  static_assert(std::is_same_v<T, int32_t> || std::is_same_v<T, uint32_t> ||
                std::is_same_v<T, uint64_t>);
  return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
template <class T>
inline T atomic_max(T* p, T v) {
  static_assert(std::is_same_v<T, int32_t> || std::is_same_v<T, uint32_t>);
  T before = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (before < v &&
         !__atomic_compare_exchange_n(p, &before, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return before;
}

namespace detail {
template <class T>
inline T plainly_loaded(const void* from, Site at) {
  sim::check_aligned(from, sizeof(T), at);
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class T>
inline T loaded(const void* from, Site at) {
  const T value = plainly_loaded<T>(from, at);
  sim::note_read(from, sizeof(T), at);
  return value;
}
}  // namespace detail

inline Word16 load16_plain(const void* from, Site at = Site::here()) {
  return detail::plainly_loaded<Word16>(from, at);
}
inline Word16 load16(const void* from, Site at = Site::here()) {
  return detail::loaded<Word16>(from, at);
}
inline Word16 load16_once(const void* from, Site at = Site::here()) {
  return detail::loaded<Word16>(from, at);
}
inline Word8 load8_once(const void* from, Site at = Site::here()) {
  return detail::loaded<Word8>(from, at);
}
inline uint32_t load4_once(const void* from, Site at = Site::here()) {
  return detail::loaded<uint32_t>(from, at);
}

inline void copy16(void* to, const void* from, bool valid, Site at = Site::here()) {
  sim::copy16(to, from, valid, at);
}
inline void copy_commit(Site at = Site::here()) { sim::copy_commit(at); }
template <int N>
inline void copy_wait(Site at = Site::here()) {
  static_assert(N >= 0);
  sim::copy_wait(N, at);
}

inline float exp_f32(float x) { return std::exp(x); }
inline float tanh_f32(float x) { return std::tanh(x); }
inline float erf_f32(float x) { return std::erf(x); }
inline float fma_f32(float a, float b, float c) { return std::fma(a, b, c); }
using std::exp;
using std::log;
using std::log1p;
using std::sqrt;
using std::tanh;

inline void mma_m16n8k16_bf16(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                              uint32_t b0, uint32_t b1, Site at = Site::here()) {
  sim::mma_m16n8k16(d, {a0, a1, a2, a3}, {b0, b1}, at);
}
inline void mfma_16x16x16_bf16(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b0, uint32_t b1,
                               Site at = Site::here()) {
  sim::mfma_16x16x16(d, {a0, a1}, {b0, b1}, at);
}
inline void wmma_16x16x16_bf16(float (&d)[8], const uint32_t (&a)[4], const uint32_t (&b)[4],
                               Site at = Site::here()) {
  sim::wmma_16x16x16(d, a, b, at);
}
constexpr int rdna_row(int lane, int i) { return lane / 16 * 8 + i; }

// A stream, and the line at which it is handed in.
struct LaunchStream {
  template <class S, class = std::enable_if_t<std::is_convertible_v<S, Stream>>>
  LaunchStream(const S& of, Site call = Site::here()) : stream(of), at(call) {}
  Stream stream;
  Site at;
};

inline int64_t most_grid_threads() { return sim::most_grid_threads(); }

template <auto kKernel, class Pointer = decltype(kKernel)>
struct Launch;

template <auto kKernel, class... P>
struct Launch<kKernel, void (*)(P...)> {
  static inline const LaunchedKernel kernel{reinterpret_cast<const void*>(kKernel)};

  static void run(Grid grid, int threads, uint32_t shared_bytes, const LaunchStream& stream,
                  P... arguments) {
    sim::enqueue(stream.stream, kernel,
                 sim::work_of(kKernel, grid, threads, shared_bytes, stream.at, arguments...));
  }
};

template <auto kKernel, class... A>
void launch(Grid grid, int threads, uint32_t shared_bytes, LaunchStream stream,
            const A&... arguments) {
  Launch<kKernel>::run(grid, threads, shared_bytes, stream, arguments...);
}

}  // namespace moert::gpu
