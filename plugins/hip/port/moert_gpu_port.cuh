// What kernels may use, on AMD: clang's own builtins and the device library's mathematics, so that device code
// needs no header of ROCm. The contract is in plugins/gpu/port.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#ifndef __HIP_DEVICE_COMPILE__
#include <hip/hip_runtime_api.h>  // what the compiler makes of a kernel on the host calls it
#endif

#define MOERT_KERNEL __attribute__((global))
#define MOERT_DEVICE __attribute__((device, always_inline)) inline
#define MOERT_CALLED __attribute__((device, noinline)) inline
#define MOERT_BOTH __attribute__((host, device, always_inline)) inline
#define MOERT_UNROLL _Pragma("unroll")
#define MOERT_ROLL _Pragma("unroll 1")
#define MOERT_BOUNDS(...)                                                                       \
  __attribute__((amdgpu_flat_work_group_size(1, moert::gpu::detail::most_threads(__VA_ARGS__)), \
                 amdgpu_waves_per_eu(moert::gpu::detail::least_warps(__VA_ARGS__))))
#define MOERT_LAYOUTS(X) X(LayoutCdna) X(LayoutRdna)

// On the host, where the device is not known yet, these say what CDNA has; no code comes of it there.
#if defined(__gfx1030__) || defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__)
#define MOERT_WAVE 32
#else
#define MOERT_WAVE 64
#endif

namespace moert::gpu {

// Lanes of a warp of the architecture that is compiled for. Kernels of the other width compile as well, and trap: the
// host does not launch them.
constexpr int kWave = MOERT_WAVE;

namespace detail {
// For MOERT_BOUNDS. A multiprocessor has four units that run warps; blocks are shared out among them.
constexpr int most_threads(int threads, int /*blocks*/) { return threads; }
constexpr int least_warps(int threads, int blocks) { return (blocks * (threads / kWave) + 3) / 4; }
}  // namespace detail

template <int W>
MOERT_DEVICE void expect_width() {
  static_assert(W == 32 || W == 64, "a warp has 32 or 64 lanes");
  if constexpr (W != kWave) __builtin_trap();
}

MOERT_DEVICE int thread() { return static_cast<int>(__builtin_amdgcn_workitem_id_x()); }
MOERT_DEVICE int threads() { return static_cast<int>(__builtin_amdgcn_workgroup_size_x()); }
MOERT_DEVICE int block_x() { return static_cast<int>(__builtin_amdgcn_workgroup_id_x()); }
MOERT_DEVICE int block_y() { return static_cast<int>(__builtin_amdgcn_workgroup_id_y()); }
// Grids are counted in threads.
MOERT_DEVICE int blocks_x() {
  return static_cast<int>(__builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x());
}
MOERT_DEVICE int blocks_y() {
  return static_cast<int>(__builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y());
}

MOERT_DEVICE void sync_block() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// Lanes run in step; the compiler is kept from moving accesses across.
template <int W>
MOERT_DEVICE void sync_warp() {
  expect_width<W>();
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

// The library's is the host's alone.
MOERT_BOTH void* memcpy(void* to, const void* from, size_t bytes) {
  return __builtin_memcpy(to, from, bytes);
}

namespace detail {

template <int W>
MOERT_DEVICE int lane_id() {
  return thread() & (W - 1);
}

template <class T>
MOERT_DEVICE T from_lane(T value, int lane) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "values of 4 or 8 bytes");
  int part[sizeof(T) / 4];
  __builtin_memcpy(part, &value, sizeof value);
  for (int& p : part) p = __builtin_amdgcn_ds_bpermute(lane * 4, p);
  __builtin_memcpy(&value, part, sizeof value);
  return value;
}

using Vector16 = uint32_t __attribute__((ext_vector_type(4)));
using Vector8 = uint32_t __attribute__((ext_vector_type(2)));
template <class T>
using Global = const T __attribute__((address_space(1)))*;
template <class T>
using Local = T __attribute__((address_space(3)))*;

// Pointers to global memory and to the block's, which the compiler would otherwise tell apart as it runs.
template <class T>
MOERT_DEVICE Global<T> global(const void* p) {
  return (Global<T>)p;  // NOLINT(google-readability-casting): only this form crosses address spaces
}

}  // namespace detail

template <int W, class T>
MOERT_DEVICE T shuffle(T value, int lane) {
  expect_width<W>();
  return detail::from_lane(value, lane);
}
template <int W, class T>
MOERT_DEVICE T shuffle_xor(T value, int mask) {
  expect_width<W>();
  return detail::from_lane(value, detail::lane_id<W>() ^ mask);
}
template <int W, class T>
MOERT_DEVICE T shuffle_up(T value, int delta) {
  expect_width<W>();
  const int lane = detail::lane_id<W>();
  return detail::from_lane(value, lane < delta ? lane : lane - delta);
}
template <int W>
MOERT_DEVICE uint64_t ballot(bool p) {
  expect_width<W>();
  return __builtin_amdgcn_uicmp(p ? 1u : 0u, 0u, 33);  // 33: not equal
}

// Dynamic shared memory. The name is the symbol of every kernel's block of it.
extern __attribute__((shared)) unsigned char block_memory[] __attribute__((aligned(128)));
MOERT_DEVICE unsigned char* shared() { return block_memory; }

template <class T>
MOERT_DEVICE T atomic_add(T* p, T value) {
  return __hip_atomic_fetch_add(p, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T>
MOERT_DEVICE T atomic_max(T* p, T value) {
  return __hip_atomic_fetch_max(p, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

MOERT_DEVICE Word16 load16(const void* p) {
  const detail::Vector16 v = *detail::global<detail::Vector16>(p);
  return {{v.x, v.y, v.z, v.w}};
}
MOERT_DEVICE Word16 load16_plain(const void* p) { return load16(p); }
MOERT_DEVICE Word16 load16_once(const void* p) {
  const detail::Vector16 v = __builtin_nontemporal_load(detail::global<detail::Vector16>(p));
  return {{v.x, v.y, v.z, v.w}};
}
MOERT_DEVICE Word8 load8_once(const void* p) {
  const detail::Vector8 v = __builtin_nontemporal_load(detail::global<detail::Vector8>(p));
  return {{v.x, v.y}};
}
MOERT_DEVICE uint32_t load4_once(const void* p) {
  return __builtin_nontemporal_load(detail::global<uint32_t>(p));
}

// Copies go through registers and are done when the thread goes on; other threads see them behind sync_block.
MOERT_DEVICE void copy16(void* to, const void* from, bool valid) {
  detail::Vector16 v = {0, 0, 0, 0};
  if (valid) v = *detail::global<detail::Vector16>(from);
  *(detail::Local<detail::Vector16>)to = v;
}
MOERT_DEVICE void copy_commit() {}
template <int N>
MOERT_DEVICE void copy_wait() {}

extern "C" {
__attribute__((device, const)) float __ocml_exp_f32(float);
__attribute__((device, const)) float __ocml_tanh_f32(float);
__attribute__((device, const)) float __ocml_erf_f32(float);
__attribute__((device, const)) double __ocml_exp_f64(double);
__attribute__((device, const)) double __ocml_log_f64(double);
__attribute__((device, const)) double __ocml_log1p_f64(double);
__attribute__((device, const)) double __ocml_tanh_f64(double);
__attribute__((device, const)) double __ocml_sqrt_f64(double);
}
MOERT_DEVICE float exp_f32(float x) { return __ocml_exp_f32(x); }
MOERT_DEVICE float tanh_f32(float x) { return __ocml_tanh_f32(x); }
MOERT_DEVICE float erf_f32(float x) { return __ocml_erf_f32(x); }
MOERT_DEVICE float fma_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
MOERT_DEVICE double fabs(double x) { return __builtin_fabs(x); }
MOERT_DEVICE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
MOERT_DEVICE double exp(double x) { return __ocml_exp_f64(x); }
MOERT_DEVICE double log(double x) { return __ocml_log_f64(x); }
MOERT_DEVICE double log1p(double x) { return __ocml_log1p_f64(x); }
MOERT_DEVICE double tanh(double x) { return __ocml_tanh_f64(x); }
MOERT_DEVICE double sqrt(double x) { return __ocml_sqrt_f64(x); }

}  // namespace moert::gpu

#include "../../gpu/toolkit/launch.cuh"
#include "matrix.cuh"
