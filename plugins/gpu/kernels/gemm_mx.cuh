// Weights of mxfp4 by rows of mxfp8, where an instruction takes codes and scales as they are.
// SPDX-License-Identifier: Apache-2.0
//
// X tells what one instruction takes (mx_nv.cuh, mx_cdna.cuh):
//   L                         the layout by which weights are packed
//   kChunks, kB               chunks of K, and words of a lane's codes of B; of A there are four
//   a_codes(word, a)          a lane's codes of A, for every product of a unit, from its packed word
//   b_k(lane, run)            where each of a lane's kB / 2 runs of eight neighbours in a column of B begins
//   scale_row(lane), scale_chunk(lane)   whose scale of A a lane hands in; of B it is that of its own column there
//   multiply(d, a, b, scale_a, scale_b)  D += A B with codes of e8m0 for scales
#pragma once

#include "gemm_stream.cuh"

namespace moert::gpu {

// Of a number that e4m3fn has; infinities, which it has not, become NaN. Its exponent is off by 120; those below the
// least normal number are so in f32, too.
MOERT_DEVICE uint32_t e4m3_of(float number) {
  const uint32_t bits = bits_of_float(number);
  const bool is_nan = (bits & 0x7fffffffu) >= 0x7f800000u;
  return (bits >> 24 & 0x80u) | (is_nan ? 0x7fu : bits_of_float(number * 0x1p-120f) >> 20 & 0x7fu);
}

// Four codes from two pairs of bf16.
MOERT_DEVICE uint32_t e4m3_codes(uint32_t first, uint32_t second) {
  return e4m3_of(float_of_bits(first << 16)) | e4m3_of(float_of_bits(first & 0xffff0000u)) << 8 |
         e4m3_of(float_of_bits(second << 16)) << 16 |
         e4m3_of(float_of_bits(second & 0xffff0000u)) << 24;
}

// A lane's codes of B in a product: rows of the batch hold them as numbers of bf16.
template <class X>
MOERT_DEVICE void load_codes(const unsigned char* row, int chunk, int lane, uint32_t (&b)[X::kB]) {
  MOERT_UNROLL
  for (int run = 0; run < X::kB / 2; ++run) {
    const Word16 word = load16(row + (int64_t{chunk} * kChunk + X::b_k(lane, run)) * 2);
    b[run * 2] = e4m3_codes(word.part[0], word.part[1]);
    b[run * 2 + 1] = e4m3_codes(word.part[2], word.part[3]);
  }
}

// The code of a scale that is a power of two.
MOERT_DEVICE uint32_t e8m0_of(float scale) { return bits_of_float(scale) >> 23 & 0xffu; }

// C of kPanels panels (1, or gate and up) and the positions of an item, kTiles * kCols at a time. Block (x, y): item x,
// panels of kStreamWarps warps from y on. Rows that an item does not have are those of its first position.
template <class X, int kPanels, int kTiles>
MOERT_KERNEL MOERT_BOUNDS(kStreamWarps* X::L::kWarp, 2) void gemm_mx(int64_t first_item,
                                                                     GemmArgs args) {
  using L = typename X::L;
  using F = Fragments<L, Codec::mxfp4>;
  constexpr int kUnit = F::kShape.unit_chunks, kProducts = kUnit / X::kChunks;

  // Which panels.
  const int64_t number = first_item + block_x();
  if (number >= *args.n_items) return;
  const Projection& w = args.weights;
  const int lane = thread() % L::kWarp;
  const int panel = block_y() * kStreamWarps + thread() / L::kWarp;
  if (panel * kPanels >= w.panels) return;
  const Item item = args.items[number];
  const int end = item.first + item.rows, units = w.chunks / kUnit;
  const int64_t panel_bytes = int64_t{units} * (F::kShape.words * L::kWarp * 16);
  const unsigned char* codes =
      w.codes + item.expert * w.codes_per_expert + int64_t{panel} * kPanels * panel_bytes;
  const unsigned char* powers = w.scales + item.expert * w.scales_per_expert +
                                int64_t{panel} * kPanels * panel_scales(w) +
                                PowerPlace<L>::of(X::scale_row(lane));

  for (int first = item.first; first < end; first += kTiles * L::kCols) {
    // Which rows.
    const unsigned char* row[kTiles];
    const float* scales[kTiles];
    MOERT_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      const int mine = first + t * L::kCols + L::b_col(lane),
                there = mine < end ? mine : item.first;
      row[t] = row_bytes<2>(args.rows, there);
      scales[t] = args.rows.scales + int64_t{row_at(args.rows, there)} * args.rows.groups;
    }

    // Sums over K, with the next unit's words on their way.
    float sums[kTiles][kPanels][L::kC] = {};
    Word16 words[kPanels][F::kShape.words];
    MOERT_UNROLL
    for (int p = 0; p < kPanels; ++p) load_unit<L, F>(codes + p * panel_bytes, 0, lane, words[p]);
    for (int unit = 0; unit < units; ++unit) {
      uint32_t a[kPanels][kProducts][4];
      MOERT_UNROLL
      for (int p = 0; p < kPanels; ++p) {
        X::a_codes(words[p][0], a[p]);
        if (unit + 1 < units) load_unit<L, F>(codes + p * panel_bytes, unit + 1, lane, words[p]);
      }
      MOERT_UNROLL
      for (int product = 0; product < kProducts; ++product) {
        const int chunk = unit * kUnit + product * X::kChunks,
                  my_chunk = chunk + X::scale_chunk(lane);
        uint32_t power[kPanels];
        MOERT_UNROLL
        for (int p = 0; p < kPanels; ++p)
          power[p] = powers[p * panel_scales(w) + my_chunk * kPanelRows];
        MOERT_UNROLL
        for (int t = 0; t < kTiles; ++t) {
          uint32_t b[X::kB];
          load_codes<X>(row[t], chunk, lane, b);
          const uint32_t scale = e8m0_of(scales[t][my_chunk]);
          MOERT_UNROLL
          for (int p = 0; p < kPanels; ++p)
            X::multiply(sums[t][p], a[p][product], b, power[p], scale);
        }
      }
    }

    MOERT_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      LaneCols<L> cols;
      cols.set({}, first + t * L::kCols, lane, end, item.first);
      finish_sums<L, kPanels>(args, item.expert, panel, lane, end, cols, sums[t]);
    }
  }
}

}  // namespace moert::gpu
