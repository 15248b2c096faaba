// Products of four warps together, on sm_90a alone. The contract is in plugins/gpu/kernels/gemm_wgmma.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../gpu/port.cuh"

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "wgmma is for sm_90a"
#endif

namespace moert::gpu {

// PTX ISA, "Matrix Descriptor": addresses and offsets in units of 16 bytes from bits 0, 16 and 32 on; bits 62 and 63 are
// 0 for no swizzle. With K the inner dimension the leading offset leads along K, the stride offset to the next columns.
MOERT_DEVICE uint64_t shared_matrix(const void* shared, uint32_t k_step, uint32_t col_step) {
  const auto address = static_cast<uint64_t>(__cvta_generic_to_shared(shared));
  return (address & 0x3ffff) >> 4 | uint64_t{k_step >> 4} << 16 | uint64_t{col_step >> 4} << 32;
}

MOERT_DEVICE void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
MOERT_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
MOERT_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
// The compiler does not know what runs on behind its back: A must be made before products begin, and sums must not be
// read before a wait.
template <int N>
MOERT_DEVICE void wgmma_give(uint32_t (&a)[N]) {
  MOERT_UNROLL
  for (int i = 0; i < N; ++i) asm volatile("" : "+r"(a[i])::"memory");
}
template <int kTiles>
MOERT_DEVICE void wgmma_take(float (&d)[kTiles][4]) {
  MOERT_UNROLL
  for (int t = 0; t < kTiles; ++t) MOERT_UNROLL
  for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(d[t][i])::"memory");
}
// Products read shared memory past the threads' own path.
MOERT_DEVICE void shared_written() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#define MOERT_TILE(t) "+f"(d[t][0]), "+f"(d[t][1]), "+f"(d[t][2]), "+f"(d[t][3])
MOERT_DEVICE void wgmma_m64k16_bf16(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.eq.u32 add, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, {%32, %33, %34, %35}, %36, add, 1, 1, 0;\n"
      "}\n"
      : MOERT_TILE(0), MOERT_TILE(1), MOERT_TILE(2), MOERT_TILE(3), MOERT_TILE(4), MOERT_TILE(5),
        MOERT_TILE(6), MOERT_TILE(7)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

MOERT_DEVICE void wgmma_m64k16_bf16(float (&d)[16][4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.eq.u32 add, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, {%64, %65, %66, %67}, %68, add, 1, 1, 0;\n"
      "}\n"
      : MOERT_TILE(0), MOERT_TILE(1), MOERT_TILE(2), MOERT_TILE(3), MOERT_TILE(4), MOERT_TILE(5),
        MOERT_TILE(6), MOERT_TILE(7), MOERT_TILE(8), MOERT_TILE(9), MOERT_TILE(10), MOERT_TILE(11),
        MOERT_TILE(12), MOERT_TILE(13), MOERT_TILE(14), MOERT_TILE(15)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
#undef MOERT_TILE

}  // namespace moert::gpu
