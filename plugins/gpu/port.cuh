// What kernels may use: one spelling for every toolkit. A backend gives <moert_gpu_port.cuh>, which has it all;
// nothing else in plugins/gpu names a vendor.
// SPDX-License-Identifier: Apache-2.0
//
// Macros
//   MOERT_KERNEL            in front of a kernel: `template <class L> MOERT_KERNEL void rows(RowsArgs args)`
//   MOERT_BOUNDS(t, b)      behind MOERT_KERNEL: at most t threads a block, at least b blocks a multiprocessor
//   MOERT_DEVICE            in front of a device function (always inlined)
//   MOERT_CALLED            in front of one that is never inlined
//   MOERT_BOTH              in front of one that the host may call as well; may be constexpr
//   MOERT_UNROLL            in front of a loop that must be unrolled
//   MOERT_ROLL              in front of one that must not be
//   MOERT_LAYOUTS(X)        calls X(L) for every tile layout of this backend: moert::gpu::LayoutNv, ...
//
// Functions, all in moert::gpu. Blocks have one dimension, kernels have dynamic shared memory alone, and a
// kernel's arguments are trivially copyable. W is the width of a warp, 32 or 64; warps are complete.
//   int thread(), threads(), block_x(), block_y(), blocks_x(), blocks_y();
//   void sync_block();                      every thread of the block arrives
//   void sync_warp<W>();
//   T shuffle<W>(T v, int lane);            v of that lane; T of 4 or 8 bytes
//   T shuffle_xor<W>(T v, int mask);
//   T shuffle_up<W>(T v, int delta);        lanes below delta keep their own
//   uint64_t ballot<W>(bool p);
//   unsigned char* shared();                dynamic shared memory, aligned to 128 bytes
//   T atomic_add(T* p, T v);                int32_t, uint32_t, uint64_t; returns what was there
//   T atomic_max(T* p, T v);                int32_t, uint32_t
//   Word16 load16(const void*);             16 aligned bytes of global memory that the kernel does not write, cached
//   Word16 load16_plain(const void*);       the same of memory that it may write
//   Word16 load16_once(const void*);        the same where nobody reads them again soon: not kept in L1
//   Word8 load8_once(const void*);  uint32_t load4_once(const void*);
//   void copy16(void* shared, const void* global, bool valid);   16 bytes, asynchronous; zeros if not valid
//   void copy_commit();                     closes a group of copies of this thread
//   void copy_wait<N>();                    all but the last N groups have arrived, for this thread alone
//   float exp_f32(float), tanh_f32(float), erf_f32(float);
//   double exp, fabs, fma, log, log1p, tanh, sqrt as <cmath> has them;
//   float fma_f32(float a, float b, float c);   one rounding; a * b + c is never fused by itself
//   The raw matrix instructions that the backend's layouts use (tile/layouts.cuh says which).
//
// Host side, in files that hold kernels:
//   template <auto kKernel> void launch(Grid grid, int threads, uint32_t shared_bytes, LaunchStream, arguments...);
//     Enqueues kKernel(arguments...). Throws PluginError with the toolkit's number. Every kernel that some launch names
//     is in the list of launched.hpp; load_kernels (runtime.hpp) comes before the first launch on a device.
//   LaunchStream                            a Stream becomes one
//   int64_t most_grid_threads();            blocks times threads along x; kernels/pieces.cuh cuts larger grids
#pragma once

#include <cstddef>
#include <cstdint>

namespace moert::gpu {

// A stream of the toolkit.
using Stream = void*;

struct Grid {
  unsigned x = 1, y = 1;
};

struct alignas(8) Word8 {
  uint32_t part[2];
};
struct alignas(16) Word16 {
  uint32_t part[4];
};

}  // namespace moert::gpu

#include <moert_gpu_port.cuh>
