// What kernels may use, on NVIDIA from sm_80 on. The contract is in plugins/gpu/port.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#define MOERT_KERNEL __global__
#define MOERT_BOUNDS(...) __launch_bounds__(__VA_ARGS__)
#define MOERT_DEVICE __device__ __forceinline__
#define MOERT_CALLED __device__ __noinline__ inline
#define MOERT_BOTH __host__ __device__ __forceinline__
#define MOERT_UNROLL _Pragma("unroll")
#define MOERT_ROLL _Pragma("unroll 1")
#define MOERT_LAYOUTS(X) X(LayoutNv)

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "kernels need sm_80 or later: MOERT_CUDA_ARCHITECTURES names an older one"
#endif

namespace moert::gpu {

// Warps have 32 lanes. What is written for 64 compiles as well, and traps: the host does not launch it.
template <int W>
MOERT_DEVICE void expect_width() {
  static_assert(W == 32 || W == 64, "a warp has 32 or 64 lanes");
  if (W != 32) __trap();
}

MOERT_DEVICE int thread() { return static_cast<int>(threadIdx.x); }
MOERT_DEVICE int threads() { return static_cast<int>(blockDim.x); }
MOERT_DEVICE int block_x() { return static_cast<int>(blockIdx.x); }
MOERT_DEVICE int block_y() { return static_cast<int>(blockIdx.y); }
MOERT_DEVICE int blocks_x() { return static_cast<int>(gridDim.x); }
MOERT_DEVICE int blocks_y() { return static_cast<int>(gridDim.y); }

MOERT_DEVICE void sync_block() { __syncthreads(); }
template <int W>
MOERT_DEVICE void sync_warp() {
  expect_width<W>();
  __syncwarp();
}

namespace detail {

constexpr uint32_t kAllLanes = 0xffffffffu;

template <class To, class From>
MOERT_DEVICE To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "same bytes");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

// Shuffles move whole words; the instructions for 8 bytes are the compiler's business.
template <class T>
struct WordOf {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "values of 4 or 8 bytes");
  using type = std::conditional_t<sizeof(T) == 4, uint32_t, unsigned long long>;
};
template <class T>
using Word = typename WordOf<T>::type;

}  // namespace detail

template <int W, class T>
MOERT_DEVICE T shuffle(T value, int lane) {
  expect_width<W>();
  return detail::bits_as<T>(
      __shfl_sync(detail::kAllLanes, detail::bits_as<detail::Word<T>>(value), lane));
}
template <int W, class T>
MOERT_DEVICE T shuffle_xor(T value, int mask) {
  expect_width<W>();
  return detail::bits_as<T>(
      __shfl_xor_sync(detail::kAllLanes, detail::bits_as<detail::Word<T>>(value), mask));
}
template <int W, class T>
MOERT_DEVICE T shuffle_up(T value, int delta) {
  expect_width<W>();
  return detail::bits_as<T>(__shfl_up_sync(
      detail::kAllLanes, detail::bits_as<detail::Word<T>>(value), static_cast<unsigned>(delta)));
}
template <int W>
MOERT_DEVICE uint64_t ballot(bool p) {
  expect_width<W>();
  return __ballot_sync(detail::kAllLanes, p);
}

// Dynamic shared memory. The name is the symbol of every kernel's block of it.
extern __shared__ __align__(128) unsigned char block_memory[];
MOERT_DEVICE unsigned char* shared() { return block_memory; }

MOERT_DEVICE int32_t atomic_add(int32_t* p, int32_t value) { return atomicAdd(p, value); }
MOERT_DEVICE uint32_t atomic_add(uint32_t* p, uint32_t value) { return atomicAdd(p, value); }
MOERT_DEVICE uint64_t atomic_add(uint64_t* p, uint64_t value) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(p), value);
}
MOERT_DEVICE int32_t atomic_max(int32_t* p, int32_t value) { return atomicMax(p, value); }
MOERT_DEVICE uint32_t atomic_max(uint32_t* p, uint32_t value) { return atomicMax(p, value); }

MOERT_DEVICE Word16 load16(const void* p) {
  Word16 v;
  asm("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.part[0]), "=r"(v.part[1]), "=r"(v.part[2]), "=r"(v.part[3])
      : "l"(__cvta_generic_to_global(p)));
  return v;
}
MOERT_DEVICE Word16 load16_plain(const void* p) {
  const uint4 v = *static_cast<const uint4*>(p);
  return {{v.x, v.y, v.z, v.w}};
}
MOERT_DEVICE Word16 load16_once(const void* p) {
  Word16 v;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.part[0]), "=r"(v.part[1]), "=r"(v.part[2]), "=r"(v.part[3])
      : "l"(__cvta_generic_to_global(p)));
  return v;
}
MOERT_DEVICE Word8 load8_once(const void* p) {
  Word8 v;
  asm("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
      : "=r"(v.part[0]), "=r"(v.part[1])
      : "l"(__cvta_generic_to_global(p)));
  return v;
}
MOERT_DEVICE uint32_t load4_once(const void* p) {
  uint32_t v;
  asm("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(__cvta_generic_to_global(p)));
  return v;
}

// What is not read is written as zeros: 0 of the 16 bytes come from global memory.
MOERT_DEVICE void copy16(void* to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(__cvta_generic_to_global(from)), "r"(valid ? 16 : 0)
               : "memory");
}
MOERT_DEVICE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
MOERT_DEVICE void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

MOERT_DEVICE float exp_f32(float x) { return ::expf(x); }
MOERT_DEVICE float tanh_f32(float x) { return ::tanhf(x); }
MOERT_DEVICE float erf_f32(float x) { return ::erff(x); }
MOERT_DEVICE float fma_f32(float a, float b, float c) { return __fmaf_rn(a, b, c); }
MOERT_DEVICE double fabs(double x) { return ::fabs(x); }
MOERT_DEVICE double fma(double a, double b, double c) { return __fma_rn(a, b, c); }
MOERT_DEVICE double exp(double x) { return ::exp(x); }
MOERT_DEVICE double log(double x) { return ::log(x); }
MOERT_DEVICE double log1p(double x) { return ::log1p(x); }
MOERT_DEVICE double tanh(double x) { return ::tanh(x); }
MOERT_DEVICE double sqrt(double x) { return ::sqrt(x); }

// D += A B: 16 x 8 numbers in f32 by 16 x 16 and 16 x 8 in bf16, two to a word.
MOERT_DEVICE void mma_m16n8k16_bf16(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                    uint32_t a3, uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// AMD's. No kernel of this backend is made for their layouts.
MOERT_DEVICE void mfma_16x16x16_bf16(float (&)[4], uint32_t, uint32_t, uint32_t, uint32_t) {
  __trap();
}
MOERT_DEVICE void wmma_16x16x16_bf16(float (&)[8], const uint32_t (&)[4], const uint32_t (&)[4]) {
  __trap();
}
MOERT_BOTH constexpr int rdna_row(int lane, int i) { return lane / 16 * 8 + i; }

}  // namespace moert::gpu

#include "../../gpu/toolkit/launch.cuh"
