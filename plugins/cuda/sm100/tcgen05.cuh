// Products out of shared into tensor memory on sm_100a: the instructions, and what describes their operands.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../gpu/port.cuh"

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM100_ALL)
#error "tcgen05 is for sm_100a"
#endif

namespace moert::gpu::tcgen05 {

MOERT_DEVICE uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// PTX ISA, "Shared Memory Descriptor": no swizzle, K the inner dimension. Blocks of 8 rows by 16 bytes; bytes to the
// next block of K, and to that of rows.
MOERT_DEVICE uint64_t matrix(const void* shared, uint32_t k_step, uint32_t row_step) {
  constexpr uint64_t kVersion = uint64_t{1} << 46;
  return (shared_address(shared) & 0x3ffff) >> 4 | uint64_t{k_step >> 4} << 16 |
         uint64_t{row_step >> 4} << 32 | kVersion;
}

// PTX ISA, "Instruction Descriptor" of kind mxf8f6f4: A of e2m1, B of e4m3, scales of ue8m0, of which byte `scale` of
// their words is taken.
MOERT_DEVICE constexpr uint32_t mx_instruction(int m, int n, int scale) {
  constexpr uint32_t kE2m1 = 5, kE4m3 = 0, kUe8m0 = 1;
  const auto byte = static_cast<uint32_t>(scale);
  return byte << 4 | kE2m1 << 7 | kE4m3 << 10 | static_cast<uint32_t>(n >> 3) << 17 | kUe8m0 << 23 |
         static_cast<uint32_t>(m >> 7) << 27 | byte << 29;
}

// By one warp. The address of `kColumns` columns of tensor memory is written to `to`; nobody allocates again.
template <int kColumns>
MOERT_DEVICE void allocate(uint32_t* to) {
  asm volatile(
      "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(shared_address(to)),
      "n"(kColumns)
      : "memory");
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
}
template <int kColumns>
MOERT_DEVICE void release(uint32_t address) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address),
               "n"(kColumns));
}

// 32 lanes of four words, to every quarter of the lanes.
MOERT_DEVICE void copy_scales(uint32_t to, uint64_t from) {
  asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(to), "l"(from) : "memory");
}
// D = A B, or with `add` D += A B: 32 numbers of K.
MOERT_DEVICE void multiply(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction,
                           uint32_t scale_a, uint32_t scale_b, bool add) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.u32 add, %6, 0;\n"
      "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X "
      "[%0], %1, %2, %3, [%4], [%5], add;\n"
      "}\n" ::"r"(d),
      "l"(a), "l"(b), "r"(instruction), "r"(scale_a), "r"(scale_b), "r"(add ? 1u : 0u)
      : "memory");
}

// A barrier in shared memory, which everything that the calling thread has begun arrives at when it is done.
MOERT_DEVICE void start(uint64_t* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
MOERT_DEVICE void commit(uint64_t* barrier) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(
                   shared_address(barrier))
               : "memory");
}
MOERT_DEVICE void wait(uint64_t* barrier, int round) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(round & 1)
      : "memory");
}

MOERT_DEVICE void before_sync() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
MOERT_DEVICE void after_sync() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
MOERT_DEVICE void shared_written() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Eight columns of the lane that a thread has: thread % 128 of tensor memory's 128.
MOERT_DEVICE void load(uint32_t from, float (&columns)[8]) {
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];\n"
      "tcgen05.wait::ld.sync.aligned;"
      : "=f"(columns[0]), "=f"(columns[1]), "=f"(columns[2]), "=f"(columns[3]), "=f"(columns[4]),
        "=f"(columns[5]), "=f"(columns[6]), "=f"(columns[7])
      : "r"(from)
      : "memory");
}

}  // namespace moert::gpu::tcgen05
