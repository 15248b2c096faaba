// Few rows an expert: every warp streams its panels' weights into registers once, and no warp waits for another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm_parts.cuh"

namespace moert::gpu {

constexpr int kStreamWarps = 2;  // few, so that all multiprocessors have some

// Words of a unit of one panel. Consecutive lanes read consecutive words.
template <class L, class F>
MOERT_DEVICE void load_unit(const unsigned char* panel, int unit, int lane,
                            Word16 (&words)[F::kShape.words]) {
  const unsigned char* from = panel + int64_t{unit} * (F::kShape.words * L::kWarp * 16) + lane * 16;
  MOERT_UNROLL
  for (int w = 0; w < F::kShape.words; ++w) words[w] = load16_once(from + w * L::kWarp * 16);
}

// A lane's numbers of B in one chunk: neighbours of its row.
template <class L, class F>
MOERT_DEVICE void load_rows(const unsigned char* row, int chunk, int lane, typename F::B& b) {
  constexpr int kBytes = L::kB * F::kElementBytes;
  const unsigned char* from = row + (int64_t{chunk} * kChunk + L::b_k(lane, 0)) * F::kElementBytes;
  MOERT_UNROLL
  for (int i = 0; i < kBytes / 16; ++i) {
    const Word16 word = load16(from + i * 16);
    memcpy(reinterpret_cast<unsigned char*>(&b) + i * 16, &word, 16);
  }
}

// C of kPanels panels (1, or gate and up) and kTiles * kCols positions. Block (x, y): item x, the panels of kStreamWarps
// warps from y on. Rows that an item does not have are those of its first position; their sums are not written.
template <class L, Codec kCodec, int kPanels, int kTiles>
MOERT_KERNEL MOERT_BOUNDS(kStreamWarps* L::kWarp, 2) void gemm_stream(int64_t first_item,
                                                                      GemmArgs args) {
  using F = Fragments<L, kCodec>;
  constexpr int kUnit = F::kShape.unit_chunks;
  // Words in flight for a lane: enough for a memory's latency, few enough for the registers.
  constexpr int kWords = kPanels * F::kShape.words + kTiles * kUnit;
  constexpr int kDepth = kWords <= 2 ? 4 : kWords <= 6 ? 2 : 1;

  // Which panels, which rows.
  const int64_t number = first_item + block_x();
  if (number >= *args.n_items) return;
  const int lane = thread() % L::kWarp;
  const int panel = block_y() * kStreamWarps + thread() / L::kWarp;
  if (panel * kPanels >= args.weights.panels) return;
  const Item item = args.items[number];
  const int end = item.first + item.rows;
  const unsigned char* row[kTiles];
  LaneCols<L> lane_cols[kTiles];
  MOERT_UNROLL
  for (int t = 0; t < kTiles; ++t) {
    const int first = item.first + t * L::kCols, mine = first + L::b_col(lane);
    row[t] = row_bytes<F::kElementBytes>(args.rows, mine < end ? mine : item.first);
    lane_cols[t].set(args.rows, first, lane, end, item.first);
  }
  const Projection& w = args.weights;
  const int units = w.chunks / kUnit;
  const int64_t panel_bytes = int64_t{units} * (F::kShape.words * L::kWarp * 16);
  const unsigned char* codes =
      w.codes + item.expert * w.codes_per_expert + int64_t{panel} * kPanels * panel_bytes;
  const unsigned char* scales = w.scales == nullptr
                                    ? nullptr
                                    : w.scales + item.expert * w.scales_per_expert +
                                          int64_t{panel} * kPanels * panel_scales(w);

  // Sums over K: units are loaded kDepth at a time, while those before are multiplied.
  float sums[kTiles][kPanels][L::kC] = {};
  float total[kTiles][kPanels][L::kC] = {};
  int until_scaled = args.period;
  Word16 words[2][kDepth][kPanels][F::kShape.words];
  typename F::B cols[2][kDepth][kUnit][kTiles];
  const auto load = [&](int side, int first) {
    MOERT_UNROLL
    for (int d = 0; d < kDepth; ++d) {
      const int unit = first + d;
      if (unit >= units) continue;
      MOERT_UNROLL
      for (int p = 0; p < kPanels; ++p)
        load_unit<L, F>(codes + p * panel_bytes, unit, lane, words[side][d][p]);
      MOERT_UNROLL
      for (int c = 0; c < kUnit; ++c) MOERT_UNROLL
      for (int t = 0; t < kTiles; ++t)
        load_rows<L, F>(row[t], unit * kUnit + c, lane, cols[side][d][c][t]);
    }
  };
  const auto scale = [&](int chunk) {
    until_scaled = args.period;
    const int group = args.rows.group == 0 ? 0 : chunk * kChunk / args.rows.group;
    MOERT_UNROLL
    for (int p = 0; p < kPanels; ++p) {
      float factors[L::kC];
      weight_scales<L, kCodec>(w, scales + p * panel_scales(w), chunk, lane, factors);
      MOERT_UNROLL
      for (int t = 0; t < kTiles; ++t)
        add_scaled<L>(args.rows, lane_cols[t], factors, group, sums[t][p], total[t][p]);
    }
  };
  const auto multiply = [&](int side, int first) {
    MOERT_UNROLL
    for (int d = 0; d < kDepth; ++d) {
      if (first + d >= units) continue;
      MOERT_UNROLL
      for (int c = 0; c < kUnit; ++c) {
        MOERT_UNROLL
        for (int p = 0; p < kPanels; ++p) {
          typename F::A a;
          F::decode(words[side][d][p], c, a);
          MOERT_UNROLL
          for (int t = 0; t < kTiles; ++t) L::multiply(sums[t][p], a, cols[side][d][c][t]);
        }
        if constexpr (F::kScaled) {
          const int chunk = (first + d) * kUnit + c;
          if (--until_scaled == 0 || chunk + 1 == w.chunks) scale(chunk);
        }
      }
    }
  };
  load(0, 0);
  for (int unit = 0; unit < units; unit += 2 * kDepth) {
    load(1, unit + kDepth);
    multiply(0, unit);
    load(0, unit + 2 * kDepth);
    multiply(1, unit + kDepth);
  }

  MOERT_UNROLL
  for (int t = 0; t < kTiles; ++t)
    finish_sums<L, kPanels>(args, item.expert, panel, lane, end, lane_cols[t],
                            F::kScaled ? total[t] : sums[t]);
}

}  // namespace moert::gpu
