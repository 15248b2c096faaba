// How the lanes of a warp hold the operands of a matrix product, and the product itself.
// SPDX-License-Identifier: Apache-2.0
//
// C[16 x kCols] += A[16 x 32] B[32 x kCols]: A are 16 rows of a weight, B are columns that are rows of the batch. A
// chunk is 32 numbers of K. Which lane holds which k within a chunk is ours to choose, as long as A and B agree: each
// lane's numbers of one row are neighbours in memory, so that a row of the batch is read in runs of 16 bytes or more.
// Fragments are pairs of bf16 (the lower half first) or f32. The instruction's own maps are in the simulator's tables.
#pragma once

#include "../layout_id.hpp"
#include "../port.cuh"

namespace moert::gpu {

constexpr int kPanelRows = 16;  // rows of A
constexpr int kChunk = 32;      // numbers of K that one multiply takes

// NVIDIA, mma.m16n8k16. The backend gives
//   mma_m16n8k16_bf16(float (&d)[4], uint32_t a0, a1, a2, a3, uint32_t b0, b1): D += A B as PTX has it.
struct LayoutNv {
  static constexpr LayoutId kId = LayoutId::nv;
  static constexpr int kWarp = 32, kCols = 8, kA = 16, kB = 8, kC = 4;

  MOERT_BOTH static constexpr int a_row(int lane, int i) { return lane / 4 + i / 8 * 8; }
  MOERT_BOTH static constexpr int a_k(int lane, int i) { return lane % 4 * 8 + i % 8; }
  MOERT_BOTH static constexpr int b_col(int lane) { return lane / 4; }
  MOERT_BOTH static constexpr int b_k(int lane, int i) { return lane % 4 * 8 + i; }
  MOERT_BOTH static constexpr int c_row(int lane, int i) { return lane / 4 + i / 2 * 8; }
  // Sums i, i + kLaneCols ... of a lane are in column lane_col(lane, i).
  static constexpr int kLaneCols = 2;
  MOERT_BOTH static constexpr int lane_col(int lane, int i) { return lane % 4 * 2 + i; }

  MOERT_DEVICE static void multiply(float (&c)[kC], const uint32_t (&a)[kA / 2],
                                    const uint32_t (&b)[kB / 2]) {
    mma_m16n8k16_bf16(c, a[0], a[4], a[1], a[5], b[0], b[1]);
    mma_m16n8k16_bf16(c, a[2], a[6], a[3], a[7], b[2], b[3]);
  }

  // Without a matrix instruction: lanes ask each other. Sums rise in the lanes' order of k.
  MOERT_DEVICE static void multiply(float (&c)[kC], const float (&a)[kA], const float (&b)[kB]) {
    const int lane = thread() % kWarp;
    const int row = lane / 4 * 4, col = lane % 4 * 8;
    for (int q = 0; q < 4; ++q) {
      MOERT_UNROLL
      for (int i = 0; i < 8; ++i) {
        const float low = shuffle<kWarp>(a[i], row + q), high = shuffle<kWarp>(a[8 + i], row + q);
        const float left = shuffle<kWarp>(b[i], col + q), right = shuffle<kWarp>(b[i], col + 4 + q);
        c[0] = fma_f32(low, left, c[0]);
        c[1] = fma_f32(low, right, c[1]);
        c[2] = fma_f32(high, left, c[2]);
        c[3] = fma_f32(high, right, c[3]);
      }
    }
  }
};

// AMD CDNA, v_mfma_f32_16x16x16_bf16 on 64 lanes. The backend gives
//   mfma_16x16x16_bf16(float (&d)[4], uint32_t a0, a1, uint32_t b0, b1).
struct LayoutCdna {
  static constexpr LayoutId kId = LayoutId::cdna;
  static constexpr int kWarp = 64, kCols = 16, kA = 8, kB = 8, kC = 4;

  MOERT_BOTH static constexpr int a_row(int lane, int /*i*/) { return lane % 16; }
  MOERT_BOTH static constexpr int a_k(int lane, int i) { return lane / 16 * 8 + i; }
  MOERT_BOTH static constexpr int b_col(int lane) { return lane % 16; }
  MOERT_BOTH static constexpr int b_k(int lane, int i) { return lane / 16 * 8 + i; }
  MOERT_BOTH static constexpr int c_row(int lane, int i) { return lane / 16 * 4 + i; }
  static constexpr int kLaneCols = 1;
  MOERT_BOTH static constexpr int lane_col(int lane, int /*i*/) { return lane % 16; }

  MOERT_DEVICE static void multiply(float (&c)[kC], const uint32_t (&a)[kA / 2],
                                    const uint32_t (&b)[kB / 2]) {
    mfma_16x16x16_bf16(c, a[0], a[1], b[0], b[1]);
    mfma_16x16x16_bf16(c, a[2], a[3], b[2], b[3]);
  }

  MOERT_DEVICE static void multiply(float (&c)[kC], const float (&a)[kA], const float (&b)[kB]) {
    const int lane = thread() % kWarp;
    for (int q = 0; q < 4; ++q) {
      MOERT_UNROLL
      for (int i = 0; i < kB; ++i) {
        const float col = shuffle<kWarp>(b[i], lane % 16 + 16 * q);
        MOERT_UNROLL
        for (int r = 0; r < kC; ++r)
          c[r] = fma_f32(shuffle<kWarp>(a[i], lane / 16 * 4 + r + 16 * q), col, c[r]);
      }
    }
  }
};

// AMD RDNA, v_wmma_f32_16x16x16_bf16 on 32 lanes. The backend gives
//   wmma_16x16x16_bf16(float (&d)[8], const uint32_t (&a)[4], const uint32_t (&b)[4]), where lane l has 8 numbers of
//   row (column) l % 16 from k = l / 16 * 8 on, and d[i] is row rdna_row(l, i), column l % 16;
//   rdna_row(lane, i): lane / 16 * 8 + i, or what the architecture has.
struct LayoutRdna {
  static constexpr LayoutId kId = LayoutId::rdna;
  static constexpr int kWarp = 32, kCols = 16, kA = 16, kB = 16, kC = 8;

  MOERT_BOTH static constexpr int a_row(int lane, int /*i*/) { return lane % 16; }
  MOERT_BOTH static constexpr int a_k(int lane, int i) { return lane / 16 * 16 + i; }
  MOERT_BOTH static constexpr int b_col(int lane) { return lane % 16; }
  MOERT_BOTH static constexpr int b_k(int lane, int i) { return lane / 16 * 16 + i; }
  MOERT_BOTH static constexpr int c_row(int lane, int i) { return rdna_row(lane, i); }
  static constexpr int kLaneCols = 1;
  MOERT_BOTH static constexpr int lane_col(int lane, int /*i*/) { return lane % 16; }

  MOERT_DEVICE static void multiply(float (&c)[kC], const uint32_t (&a)[kA / 2],
                                    const uint32_t (&b)[kB / 2]) {
    MOERT_UNROLL
    for (int step = 0; step < 2; ++step) {
      const uint32_t rows[4] = {a[step * 4], a[step * 4 + 1], a[step * 4 + 2], a[step * 4 + 3]};
      const uint32_t cols[4] = {b[step * 4], b[step * 4 + 1], b[step * 4 + 2], b[step * 4 + 3]};
      wmma_16x16x16_bf16(c, rows, cols);
    }
  }

  MOERT_DEVICE static void multiply(float (&c)[kC], const float (&a)[kA], const float (&b)[kB]) {
    const int lane = thread() % kWarp;
    for (int q = 0; q < 2; ++q) {
      MOERT_UNROLL
      for (int i = 0; i < kB; ++i) {
        const float col = shuffle<kWarp>(b[i], lane % 16 + 16 * q);
        MOERT_UNROLL
        for (int r = 0; r < kC; ++r)
          c[r] = fma_f32(shuffle<kWarp>(a[i], rdna_row(lane, r) + 16 * q), col, c[r]);
      }
    }
  }
};

}  // namespace moert::gpu
