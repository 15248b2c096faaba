// Sums and maxima over the lanes of a warp, and over a block, in an order that is fixed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../port.cuh"

namespace moert::gpu {

// Adds N sums over the lanes of a warp, in pairs. Where N > 1, lanes give half of their sums away at each step; sum i
// is then v[0] of lanes [i * W / N, (i + 1) * W / N). N is a power of two, at most W. The order of adding does not
// depend on N.
template <int W, int N, int kMask = W / 2, class T>
MOERT_DEVICE void add_lanes(T* v) {
  if constexpr (kMask > 0) {
    if constexpr (N > 1) {
      const bool high = (thread() & kMask) != 0;
      MOERT_UNROLL
      for (int i = 0; i < N / 2; ++i) {
        const T one = v[i], other = v[N / 2 + i];  // of two places, a compiler chooses an address
        v[i] = (high ? other : one) + shuffle_xor<W>(high ? one : other, kMask);
      }
      add_lanes<W, N / 2, kMask / 2>(v);
    } else {
      v[0] += shuffle_xor<W>(v[0], kMask);
      add_lanes<W, 1, kMask / 2>(v);
    }
  }
}

template <int W, class T>
MOERT_DEVICE T sum_of_lanes(T mine) {
  add_lanes<W, 1>(&mine);
  return mine;
}

// Of numbers that are not NaN.
template <int W>
MOERT_DEVICE double max_of_lanes(double mine) {
  for (int mask = W / 2; mask > 0; mask /= 2) {
    const double other = shuffle_xor<W>(mine, mask);
    mine = other > mine ? other : mine;
  }
  return mine;
}

// Adds N sums over the block: lanes of a warp, then warps one after the other. Sum i is returned to thread i < N; what
// others get means nothing. Uses shared memory from its beginning.
template <int W, int N>
MOERT_DEVICE double add_block(double* v) {
  static_assert(N <= W, "a sum for every lane at most");
  auto* sums = reinterpret_cast<double*>(shared());  // [warps, N]
  add_lanes<W, N>(v);
  const int lane = thread() % W;
  if (lane % (W / N) == 0) sums[thread() / W * N + lane / (W / N)] = v[0];
  sync_block();
  if (thread() >= N) return 0;
  double sum = sums[thread()];
  for (int warp = 1; warp < threads() / W; ++warp) sum += sums[warp * N + thread()];
  return sum;
}
template <int W>
constexpr uint32_t add_block_bytes(int block_threads, int sums) {
  return static_cast<uint32_t>(block_threads / W * sums) * static_cast<uint32_t>(sizeof(double));
}

}  // namespace moert::gpu
